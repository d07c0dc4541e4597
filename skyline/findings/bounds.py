"""GPU utilisation of an iteration, shared by several rules."""

from __future__ import annotations

import numpy as np

from skyline.graph.spans import merged
from skyline.graph.task import KIND, ON_GPU, TaskKind
from skyline.simulate.moments import moments_us
from skyline.trace.record import ON_DEVICE
from skyline.whatif.subject import Subject


def busy_share(subject: Subject) -> float:
    """The share of an iteration in which at least one kernel or copy runs on any stream. 0 without a GPU.

    For a profile, it is their recorded time relative to the unrecorded iteration time, as everywhere in the
    report. For a trace, it is their time in the replayed steps.
    """
    return _share(subject) if subject.on_gpu else 0.0


def busy_by_device(subject: Subject) -> dict[str, float]:
    """The busy share of each GPU with recorded work, such as ``gpu0``."""
    if not subject.on_gpu:
        return {}
    tasks = subject.timeline.graph.tasks
    used: list[int] = np.unique(tasks.lane[ON_GPU[tasks.kind]]).tolist()
    devices = sorted({_device(tasks.lanes[code]) for code in used})
    return {device: _share(subject, device) for device in devices}


def _device(lane: str) -> str:
    return lane.partition("stream")[0].replace(" ", "").strip(":") or "gpu0"


def _share(subject: Subject, device: str = "") -> float:
    """The busy share of one GPU, or of all together."""
    if subject.profile is not None:
        work = [
            record
            for record in subject.profile.trace.records
            if record.kind in ON_DEVICE and device in ("", _device(record.lane))
        ]
        starts = np.array([record.start_us for record in work], np.float64)
        lengths = np.array([record.duration_us for record in work], np.float64)
        busy_ms = merged(starts, starts + lengths).total_us / 1e3
        step_ms = subject.iteration_ms.value * max(1, len(subject.profile.trace.iterations))
        return min(1.0, busy_ms / max(1e-9, step_ms))
    tasks = subject.timeline.graph.tasks
    of_device = np.array([device in ("", _device(lane)) for lane in tasks.lanes])
    working = np.flatnonzero(ON_GPU[tasks.kind] & of_device[tasks.lane])
    begin_us, end_us = subject.window_us
    owned = moments_us(subject.timeline, (working,), begin_us, end_us)
    return float(owned.sum()) / max(1e-9, end_us - begin_us)


def launches_per_iteration(subject: Subject) -> float:
    """The number of launches by the script's thread per iteration."""
    tasks = subject.graph.tasks
    launching = np.flatnonzero(tasks.kind == KIND[TaskKind.LAUNCH])
    inside = launching[subject.counted(launching)]
    return float(tasks.counts[inside].sum()) / max(1, subject.count)
