"""The subject of questions about a profile: its graph, built, calibrated and simulated once."""

from __future__ import annotations

import numpy as np

from skyline.graph.build import build, main_lane
from skyline.graph.graph import phase_times
from skyline.graph.launching import one_iteration_ahead
from skyline.graph.merging import coalesce
from skyline.graph.task import ON_GPU, part_shares
from skyline.interval import Interval
from skyline.memory.peak import batch_tensors, peak_breakdown
from skyline.simulate.engine import replay_error, simulate
from skyline.simulate.moments import billed_phases, billed_us
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, PhaseTimes
from skyline.whatif.calibration import OwnHost, calibrated, own_host, settled, simulated_ms, without_lines
from skyline.whatif.cost.tried_iterations import tried_iterations
from skyline.whatif.subject import Subject


def baseline(profile: Profile) -> Subject:
    """The subject of a profile: its graph, built, calibrated and simulated once."""
    lane = main_lane(profile.trace)
    said = profile.prediction
    iteration_ms = profile.iteration_ms
    parts_ms = {part: share * iteration_ms.value for part, share in part_shares(profile.times).items()}
    recorded = build(profile.trace, merged=False)
    tried = tried_iterations(profile)
    measured_on_gpu = said is None and bool(ON_GPU[recorded.tasks.kind].any())
    running = one_iteration_ahead(recorded, lane) if measured_on_gpu else recorded
    uncalibrated = settled(running, tried)
    quiet = coalesce(uncalibrated)
    host = OwnHost()
    if measured_on_gpu:
        host = own_host(profile, coalesce(settled(recorded, tried)), quiet, lane)
    graph = calibrated(host.applied(quiet, lane), lane, parts_ms, iteration_ms, ahead=measured_on_gpu)
    timeline = simulate(graph)
    if said is not None or measured_on_gpu:
        billed = billed_us(timeline, lane)
        phases = billed_phases(timeline, billed)
    else:
        on_lane = graph.tasks.lane == graph.tasks.lane_code(lane)
        billed = tuple(np.where(on_lane, graph.durations + graph.gaps, 0.0).tolist())
        phases = phase_times(graph, lane)
    peak = peak_breakdown(profile)
    return Subject(
        graph=graph,
        outline=without_lines(graph),
        lane=lane,
        iteration_ms=iteration_ms,
        timeline=timeline,
        steps=max(1, len(graph.iterations)),
        replay_error=replay_error(coalesce(recorded), profile.trace),
        on_gpu=profile.environment.device.kind != "cpu",
        gpu_recorded=bool(ON_GPU[recorded.tasks.kind].any()),
        device_name=profile.environment.device.name,
        peak_bytes=Interval.exact(float(peak.total)),
        profile=profile,
        simulated_ms=simulated_ms(graph, lane, measured_on_gpu),
        parts_ms=parts_ms,
        phases=_summing_to(phases, iteration_ms.value),
        peak=peak,
        batch_tensors=_batch_tensors(profile),
        billed_us=billed,
        uncalibrated=uncalibrated,
        tried=tried,
        host=host,
    )


def _batch_tensors(profile: Profile) -> tuple[int, ...]:
    """Bytes of each tensor of a batch; for a traced script, known from reading a batch."""
    read = (one.tensor_bytes for one in profile.timed_reads if one.tensor_bytes)
    return next(read, None) or batch_tensors(profile.trace)


def _summing_to(phases: PhaseTimes, total_ms: float) -> PhaseTimes:
    """The phases scaled to the total, so that rounding or, on a GPU, unmodelled time is spread in proportion."""
    if phases.total <= 0:
        return PhaseTimes(other=total_ms)
    factor = total_ms / phases.total
    return PhaseTimes.of({phase: phases[phase] * factor for phase in Phase})
