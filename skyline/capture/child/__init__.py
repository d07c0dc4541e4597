"""The part of capture that runs inside the person's interpreter: standard library and torch only.

It is loaded from its folder under the private name ``_skyline_child`` (see ``__main__``), so that nothing of
Skyline becomes importable for the script and nothing of the script can shadow it.
"""
