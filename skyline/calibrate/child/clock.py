"""Times one call: many calls in a block, several blocks, the middle one."""

import statistics
import time

import torch

_BLOCK_S = 0.002
_LONG_S = 0.1
"""What takes so long at once is not called more often than it has to be."""
_LEAST_BLOCKS, _MOST_BLOCKS = 3, 25
_MOST_CALLS = 101
STIRRED = torch.zeros(1 << 20)
"""More than the caches of two cores hold that are theirs alone."""
_SMALL = torch.zeros(4)
_BUDGET_S = 0.03
"""How long one case is timed for, where three blocks do not need longer."""


def timed(calls, device):
    """Median time of a call in µs, and how far the quartiles lie apart, relatively.

    ``calls`` do the same with tensors of their own, and take turns.
    """
    return _on_gpu(calls) if device == "cuda" else _on_host(calls)


def _on_host(calls):
    """Call by call, each after the caches of the cores were filled with something else, as other operators would."""
    first = _once(calls[0])
    for call in calls[1:] if first < _LONG_S else ():
        call()
    least = _LEAST_BLOCKS if first < _LONG_S else 2
    times = []
    end = time.perf_counter() + _BUDGET_S
    while len(times) < least or (time.perf_counter() < end and len(times) < _MOST_CALLS):
        STIRRED.add_(0.0)
        for _ in range(3):
            # PyTorch's own code is in use all the time.
            _SMALL.relu()
        times.append(_once(calls[len(times) % len(calls)]))
    return _middle(times)


def _on_gpu(calls):
    """In blocks of calls, since a GPU's clock is too coarse for one."""
    for call in calls:
        call()
    once = max(_block(calls, 1), 1e-7)
    times = max(1, min(4096, round(_BLOCK_S / once)))
    blocks = []
    end = time.perf_counter() + _BUDGET_S
    while len(blocks) < _LEAST_BLOCKS or (time.perf_counter() < end and len(blocks) < _MOST_BLOCKS):
        blocks.append(_block(calls, times))
    return _middle(blocks)


def _middle(times):
    middle = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    return middle * 1e6, (high - low) / middle


def _once(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _block(calls, times):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    count = len(calls)
    torch.cuda.synchronize()
    begin.record()
    for index in range(times):
        calls[index % count]()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / times
