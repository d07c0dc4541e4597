"""Times one call: many calls in a block, several blocks, the middle one."""

import statistics
import time

import torch

_BLOCK_S = 0.002
_LEAST_BLOCKS, _MOST_BLOCKS = 3, 25
_BUDGET_S = 0.05
"""How long one case is timed for, where three blocks do not need longer."""


def timed(calls, device):
    """Median time of a call in µs, and how far the quartiles of the blocks lie apart, relatively.

    ``calls`` do the same with tensors of their own, and take turns, so that a cache does not always hold them.
    """
    for call in calls:
        call()
    block = _on_gpu if device == "cuda" else _on_host
    once = max(block(calls, 1), 1e-7)
    times = max(1, min(4096, round(_BLOCK_S / once)))
    blocks = []
    end = time.perf_counter() + _BUDGET_S
    while len(blocks) < _LEAST_BLOCKS or (time.perf_counter() < end and len(blocks) < _MOST_BLOCKS):
        blocks.append(block(calls, times))
    middle = statistics.median(blocks)
    low, _, high = statistics.quantiles(blocks, n=4)
    return middle * 1e6, (high - low) / middle


def _on_host(calls, times):
    count = len(calls)
    begin = time.perf_counter()
    for index in range(times):
        calls[index % count]()
    return (time.perf_counter() - begin) / times


def _on_gpu(calls, times):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    count = len(calls)
    torch.cuda.synchronize()
    begin.record()
    for index in range(times):
        calls[index % count]()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / times
