"""The GPU's own work in an iteration, phase by phase."""

from __future__ import annotations

from skyline.trace.phase import Phase, PhaseTimes
from skyline.trace.record import ON_DEVICE, Trace


def gpu_phases(trace: Trace) -> PhaseTimes | None:
    """Milliseconds of kernels and copies per iteration, of all streams added up; None where none was recorded."""
    work = [record for record in trace.records if record.kind in ON_DEVICE]
    if not work:
        return None
    times = dict.fromkeys(Phase, 0.0)
    for record in work:
        times[record.phase] += record.duration_us / 1e3 / max(1, len(trace.iterations))
    return PhaseTimes.of(times)
