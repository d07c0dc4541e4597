"""What an iteration waits for, and how busy its GPU is: what several rules judge a script by."""

from __future__ import annotations

import numpy as np

from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU
from skyline.simulate.critical_path import CriticalPath, critical_path
from skyline.simulate.moments import moments_us
from skyline.simulate.timeline import Timeline
from skyline.whatif.baseline import Baseline
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject


def timeline_of(subject: Subject) -> tuple[Timeline, float, float] | None:
    """The simulation of the unchanged script, and from when to when in µs it is looked at."""
    if isinstance(subject, Recording | Baseline):
        return subject.timeline, *subject.window_us
    return None


def bounds(subject: Subject) -> CriticalPath | None:
    """What the iteration waits for, by cause."""
    seen = timeline_of(subject)
    return None if seen is None else critical_path(*seen)


def busy_share(subject: Subject) -> float:
    """The share of the time in which work runs on any stream of the GPU; 0 without one."""
    seen = timeline_of(subject)
    if seen is None or not subject.on_gpu:
        return 0.0
    timeline, begin_us, end_us = seen
    working = np.flatnonzero(ON_GPU[timeline.graph.tasks.kind])
    owned = moments_us(timeline, (working,), begin_us, end_us)
    return float(owned.sum()) / max(1e-9, end_us - begin_us)


def launches_per_iteration(subject: Subject) -> float:
    """How many pieces of work the script's thread hands to the GPU in an iteration."""
    seen = timeline_of(subject)
    if seen is None:
        return 0.0
    timeline, begin_us, end_us = seen
    tasks = timeline.graph.tasks
    launching = tasks.kind == KIND[TaskKind.LAUNCH]
    if not isinstance(subject, Recording):
        return float(tasks.counts[launching].sum()) / max(1, subject.steps)
    inside = (timeline.starts >= begin_us) & (timeline.starts < end_us)
    return float(tasks.counts[launching & inside].sum()) / max(1, subject.count)
