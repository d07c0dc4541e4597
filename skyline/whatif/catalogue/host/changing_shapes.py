"""Tells scripts whose iterations differ in the shapes of their operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np

from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.kineto.category import Category
from skyline.trace.phase import Phase
from skyline.trace.record import RecordKind
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject


def shapes_change(subject: Subject) -> bool:
    """Return True if the recorded iterations called the operators of the forward pass with different shapes.

    A trace without shapes shows at least whether other operators were called.
    """
    called: dict[int, Counter[Hashable]] = {}
    if subject.recording is not None:
        called = _called(subject.recording)
    elif subject.profile is not None:
        for record in subject.profile.trace.records:
            if record.phase is Phase.FORWARD and record.shape >= 0 and record.kind is not RecordKind.KERNEL:
                called.setdefault(record.iteration, Counter())[record.shape] += 1
    each = list(called.values())
    return any(one != each[0] for one in each[1:])


def _called(recording: Recording) -> dict[int, Counter[Hashable]]:
    """By counted step, how often the forward pass called each operator with each of its shapes."""
    trace, tasks = recording.trace, recording.graph.tasks
    forward = select(recording.graph, phase=Phase.FORWARD, kind=TaskKind.CPU, lane=recording.lane)
    rows = recording.kineto.event[forward].astype(np.int64)
    called: dict[int, Counter[Hashable]] = {}
    seen = dict.fromkeys(zip(tasks.iteration[forward].tolist(), rows.tolist(), strict=True))
    for iteration, row in seen:
        if trace.category[row] == Category.CPU_OP:
            one = int(trace.name[row]), int(trace.shapes[row])
            called.setdefault(iteration, Counter())[one] += 1
    return dict(sorted(called.items())[recording.counted]) if recording.has_steps else {}
