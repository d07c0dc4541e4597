"""What memory costs that the allocator does not keep: blocks so large that the system gives them anew each time."""

import time

import torch
from torch.utils import _python_dispatch

_BYTES = 40 << 20
"""More than the 32 MiB (2**25) up to which glibc keeps what is given back to it, whatever it is told."""
_TIMES = 3


def cost_us_per_mb(device_kind):
    """Of taking, first touching and giving back such a block, beyond writing it a second time; 0 where it is kept.

    PyTorch's own allocation and threads are used, as the script uses them. Not told where nothing is computed, nor for
    a GPU, whose allocator keeps its blocks.
    """
    if device_kind != "cpu" or _python_dispatch._len_torch_dispatch_stack() > 0:
        return 0.0
    first, second = [], []
    for _ in range(_TIMES):
        began = time.perf_counter()
        block = torch.empty(_BYTES, dtype=torch.uint8, device="cpu").fill_(1)
        filled = time.perf_counter()
        block.fill_(1)
        again = time.perf_counter()
        del block
        first.append(filled - began + time.perf_counter() - again)
        second.append(again - filled)
    return max(0.0, min(first) - min(second)) * 1e12 / _BYTES
