"""For interpreters with this folder on ``PYTHONPATH``: imports are faster, and runs are forked with the compiler.

The first optimizer of a process imports PyTorch's compiler, which takes a second of the processor. The product leaves
that to each run, because the compiler reads variables that the script may set before.
"""

import gc
import sys

# Hardly any object that an import makes is garbage: the search for it is a sixth of the time that PyTorch takes.
_usual = gc.get_threshold()
gc.set_threshold(100_000, 50, 100)

if "--warm" in sys.orig_argv:
    import torch._dynamo  # noqa: F401

    # The imports are over, and the runs that are forked are scripts as users run them.
    gc.set_threshold(*_usual)
