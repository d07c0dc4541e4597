"""Times one call: the median of several blocks of many calls."""

import statistics
import time
from functools import cache

import torch

_BLOCK_S = 0.002
_LONG_S = 0.1
"""Calls longer than this are not repeated more often than necessary."""
_LEAST_BLOCKS, _MOST_BLOCKS = 3, 25
_MOST_CALLS = 101
STIRRED = torch.zeros(1 << 20)
"""Larger than the private caches of two cores."""
_SMALL = torch.zeros(4)
_BUDGET_S = 0.03
"""Time budget per case, unless three blocks need longer."""
_MOST_QUEUED = 500
"""Number of launches that any GPU queues, for calls with one or two launches each. A queue holds about a thousand."""
_HELD_LONGER = 1.5
_MOST_HOLDS = 4
_ONE_SLEEP = 1_000_000
"""Cycles of the GPU's clock, about half a millisecond."""
_IDLE_S, _WARM_S = 0.1, 0.3
"""Seconds of idling after which a GPU lowers its clocks, and seconds that it needs to raise them again."""


def timed(calls, device):
    """Median time of a call in µs, and the relative interquartile range.

    ``calls`` are equal calls with separate tensors; they alternate.
    """
    return _on_gpu(calls) if device == "cuda" else _on_host(calls)


def _on_host(calls):
    """Time single calls; before each, the caches are filled with other data, as by other operators."""
    first = _once(calls[0])
    for call in calls[1:] if first < _LONG_S else ():
        call()
    least = _LEAST_BLOCKS if first < _LONG_S else 2
    times = []
    end = time.perf_counter() + _BUDGET_S
    while len(times) < least or (time.perf_counter() < end and len(times) < _MOST_CALLS):
        STIRRED.add_(0.0)
        for _ in range(3):
            # PyTorch's own code stays in the cache.
            _SMALL.relu()
        times.append(_once(calls[len(times) % len(calls)]))
    return _middle(times)


def _on_gpu(calls):
    """Time blocks of calls, since a GPU's clock is too coarse for a single one.

    The GPU is kept busy until all launches of a block wait in its queue. Otherwise the time of a small kernel would be
    the host's launch time.
    """
    _warmed(calls)
    _, launched_s = _block(calls, 1, 0.0)
    once_s, _ = _block(calls, _LEAST_BLOCKS, 0.0)
    times = max(1, min(_MOST_QUEUED, round(_BLOCK_S / max(once_s, 1e-7))))
    held_s = _holding(calls, times, launched_s * times)
    blocks = []
    end = time.perf_counter() + _BUDGET_S
    while len(blocks) < _LEAST_BLOCKS or (time.perf_counter() < end and len(blocks) < _MOST_BLOCKS):
        blocks.append(_block(calls, times, held_s)[0])
    global _used_at
    _used_at = time.perf_counter()
    return _middle(blocks)


def _warmed(calls):
    """Run at the clock rates of a busy GPU."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    if time.perf_counter() - _used_at > _IDLE_S:
        end = time.perf_counter() + _WARM_S
        while time.perf_counter() < end:
            torch.cuda._sleep(_ONE_SLEEP)
            for call in calls:
                call()
            torch.cuda.synchronize()


def _holding(calls, times, launching_s):
    """Time, in s, to keep the GPU busy so that a block is launched before it begins; 0 if impossible."""
    held_s = launching_s * _HELD_LONGER
    for _ in range(_MOST_HOLDS):
        _, launched_s = _block(calls, times, held_s)
        if launched_s <= held_s:
            return held_s
        held_s = launched_s * _HELD_LONGER
    # The calls themselves wait for the GPU.
    return 0.0


def _middle(times):
    middle = statistics.median(times)
    low, _, high = statistics.quantiles(times, n=4)
    return middle * 1e6, (high - low) / middle


def _once(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _block(calls, times, held_s):
    """Time per call on the GPU and launch time of all calls on the host, in s."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    count = len(calls)
    torch.cuda.synchronize()
    began = time.perf_counter()
    if held_s:
        torch.cuda._sleep(round(held_s * _cycles_per_s()))
    begin.record()
    for index in range(times):
        calls[index % count]()
    end.record()
    launched_s = time.perf_counter() - began
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / times, launched_s


@cache
def _cycles_per_s():
    """Clock rate, in cycles per s, of the clock that keeps the busy GPU waiting."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(_ONE_SLEEP)
    begin.record()
    torch.cuda._sleep(_ONE_SLEEP)
    end.record()
    end.synchronize()
    return _ONE_SLEEP / max(1e-9, begin.elapsed_time(end) / 1e3)


_used_at = float("-inf")
