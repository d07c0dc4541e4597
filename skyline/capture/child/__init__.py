"""The part of capture that runs inside the user's interpreter. It uses only the standard library and torch.

It is loaded from its folder under the private name ``_skyline_child`` (see ``__main__``), so that the script cannot
import Skyline by accident, and modules of the script cannot shadow it.
"""
