"""The kernels and copies that each line launched on the GPU."""

from __future__ import annotations

from collections import Counter

from skyline.analysis.line_parts import Place, place_of
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import ON_DEVICE, Trace

MOST_KERNELS = 5
"""Number of kernels kept per line. The remaining time counts in ``gpu_ms`` only."""


@dataclass(frozen=True, slots=True)
class LineKernel:
    """A kernel or copy of a line: its GPU time and its launches per iteration, summed over the phases.

    ``file`` and ``line`` are empty and 0 if no line of the user's code launched it.
    """

    file: str
    line: int
    name: str
    gpu_ms: float
    calls: float


def line_kernels(trace: Trace) -> tuple[LineKernel, ...]:
    """The longest kernels of each line that launched any, grouped by line, longest first."""
    times: dict[Place, Counter[str]] = {}
    calls: dict[Place, Counter[str]] = {}
    for record in trace.records:
        if record.kind not in ON_DEVICE:
            continue
        place = place_of(trace, record.line if record.line >= 0 else record.call_line)
        times.setdefault(place, Counter())[record.name] += record.duration_us  # type: ignore[assignment]
        calls.setdefault(place, Counter())[record.name] += 1
    iterations = max(1, len(trace.iterations))
    return tuple(
        LineKernel(*place, name, time_us / iterations / 1e3, calls[place][name] / iterations)
        for place in sorted(times)
        for name, time_us in times[place].most_common(MOST_KERNELS)
    )
