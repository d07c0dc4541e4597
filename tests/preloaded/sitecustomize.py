"""For interpreters with this folder on ``PYTHONPATH``: the process that runs are forked from has PyTorch's compiler.

The first optimizer of a process imports it, which takes a second of the processor. The product leaves that to each run,
because the compiler reads variables that the script may set before.
"""

import sys

if "--warm" in sys.orig_argv:
    import torch._dynamo  # noqa: F401
