"""Times of launching and waiting on a GPU, by the host's clock, since no kernel shows them."""

import statistics
import time

import torch

_ROUNDS = 50
_CALLS = 20
"""Fewer launches than any queue holds."""
_MOST_QUEUED = 8192
_LONG_CYCLES = 400_000_000
"""Cycles of an empty kernel of about a fifth of a second, during which launches queue up."""
_FULL = 100
"""A launch that takes this many times the usual time waits for space in the queue."""


def measured(op):
    """Median and spread in µs; for ``queue_depth``, a number of launches instead of a time."""
    x = torch.zeros(1, device="cuda")
    torch.relu(x)
    torch.cuda.synchronize()
    times = _MEASURES[op](x)
    low, middle, high = statistics.quantiles(times, n=4)
    return max(0.1, middle * 1e6), (high - low) / max(middle, 1e-9)


def _launch_call(x):
    """Host time of a call from Python that launches a kernel."""
    times = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(_CALLS):
            torch.relu(x)
        times.append((time.perf_counter() - begin) / _CALLS)
    return times


def _launch_latency(x):
    """Time from the call until the end of the kernel is known, minus the time of a wait without work."""
    idle = statistics.median(_stream_sync(x))
    times = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        torch.relu(x)
        torch.cuda.current_stream().synchronize()
        times.append(max(0.0, time.perf_counter() - begin - idle))
    return times


def _kernel_gap(x):
    """Time between two small kernels whose launches both wait in the queue."""
    times = []
    for _ in range(_ROUNDS):
        torch.cuda._sleep(_LONG_CYCLES // 200)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_CALLS):
            torch.relu(x)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / _CALLS)
    return times


def _queue_depth(x):
    """Number of launches behind a long kernel before the host blocks, returned as seconds / 1e6."""
    usual = statistics.median(_launch_call(x))
    depths = []
    for _ in range(3):
        torch.cuda.synchronize()
        torch.cuda._sleep(_LONG_CYCLES)
        depth = 0
        while depth < _MOST_QUEUED:
            begin = time.perf_counter()
            torch.relu(x)
            if time.perf_counter() - begin > _FULL * usual:
                break
            depth += 1
        depths.append(depth / 1e6)
    torch.cuda.synchronize()
    return depths


def _event_sync(x):
    times = []
    for _ in range(_ROUNDS):
        event = torch.cuda.Event()
        event.record()
        torch.cuda.synchronize()
        times.append(_took(event.synchronize))
    return times


def _stream_sync(x):
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    return [_took(stream.synchronize) for _ in range(_ROUNDS)]


def _took(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


_MEASURES = {
    "launch_call": _launch_call,
    "launch_latency": _launch_latency,
    "kernel_gap": _kernel_gap,
    "queue_depth": _queue_depth,
    "event_sync": _event_sync,
    "stream_sync": _stream_sync,
}
