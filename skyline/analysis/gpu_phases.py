"""Time of the GPU's own work per phase."""

from __future__ import annotations

from skyline.trace.phase import Phase, PhaseTimes
from skyline.trace.record import ON_DEVICE, Trace


def gpu_phases(trace: Trace) -> PhaseTimes | None:
    """Time of kernels and copies per iteration, in ms, summed over all streams; None if none was recorded."""
    work = [record for record in trace.records if record.kind in ON_DEVICE]
    if not work:
        return None
    times = dict.fromkeys(Phase, 0.0)
    for record in work:
        times[record.phase] += record.duration_us / 1e3 / max(1, len(trace.iterations))
    return PhaseTimes.of(times)
