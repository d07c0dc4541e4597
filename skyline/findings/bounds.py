"""GPU utilisation of an iteration, shared by several rules."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.task import KIND, ON_GPU, TaskKind
from skyline.simulate.moments import moments_us
from skyline.whatif.subject import Subject


def busy_share(subject: Subject) -> float:
    """The share of time in which work runs on any stream of the GPU; 0 without a GPU."""
    if not subject.on_gpu:
        return 0.0
    return _share(subject, np.flatnonzero(ON_GPU[subject.timeline.graph.tasks.kind]))


def busy_by_device(subject: Subject) -> dict[str, float]:
    """The busy share by GPU whose work was recorded: ``gpu0``."""
    if not subject.on_gpu:
        return {}
    tasks = subject.timeline.graph.tasks
    working = np.flatnonzero(ON_GPU[tasks.kind])
    device_of = [lane.partition("stream")[0].replace(" ", "").strip(":") or "gpu0" for lane in tasks.lanes]
    found: dict[str, float] = {}
    used: list[int] = np.unique(tasks.lane[working]).tolist()
    for device in sorted({device_of[code] for code in used}):
        lanes = [code for code, one in enumerate(device_of) if one == device]
        found[device] = _share(subject, working[np.isin(tasks.lane[working], lanes)])
    return found


def _share(subject: Subject, working: Indices) -> float:
    begin_us, end_us = subject.window_us
    owned = moments_us(subject.timeline, (working,), begin_us, end_us)
    return float(owned.sum()) / max(1e-9, end_us - begin_us)


def launches_per_iteration(subject: Subject) -> float:
    """The number of launches by the script's thread per iteration."""
    tasks = subject.graph.tasks
    launching = np.flatnonzero(tasks.kind == KIND[TaskKind.LAUNCH])
    inside = launching[subject.counted(launching)]
    return float(tasks.counts[inside].sum()) / max(1, subject.count)
