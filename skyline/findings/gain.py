"""Predicted savings of what-ifs. They are the costs of the problems that the what-ifs remove."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.graph import Graph
from skyline.graph.task import ON_GPU
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import Subject


def step_ms(subject: Subject) -> float:
    """The iteration time, in ms, in a continuous run."""
    return subject.running_ms.value


def saved_ms(subject: Subject, whatif: str) -> float:
    """The predicted saving per iteration of a what-if, in ms, written as the user types it; 0 if there is none."""
    if subject.refusal:
        return 0.0
    choice = Choice.parse(whatif)
    known = whatifs().get(choice.name)
    if known is None or not detected_in(subject, known).applicable:
        return 0.0
    composed = compose(subject, (choice,))
    if composed.reason or composed.untouched:
        return 0.0
    return spared_ms(subject, composed.start.graph, composed.scenario.graph)


def spared_ms(subject: Subject, now: Graph, changed: Graph) -> float:
    """The saving of a changed graph per iteration, in ms, scaled to the measured iteration; at least 0."""
    before = _settled_ms(subject, now)
    if before <= 0 or subject.refusal:
        return 0.0
    return max(0.0, 1.0 - _settled_ms(subject, changed) / before) * step_ms(subject)


def _settled_ms(subject: Subject, graph: Graph) -> float:
    """The step time, in ms, in a continuous run: without waits, the busiest stream limits the script."""
    tasks = graph.tasks
    working = ON_GPU[tasks.kind]
    busy_us = np.bincount(
        tasks.lane[working], (graph.durations + graph.gaps)[working], minlength=len(tasks.lanes)
    )
    own_ms = subject.step_ms(graph)
    if subject.recording is not None:
        return own_ms  # already includes it for the counted steps
    return max(own_ms, float(busy_us.max(initial=0.0)) / 1e3 / max(1, len(graph.iterations)))


def best_cure(subject: Subject, names: Sequence[str]) -> tuple[str | None, float]:
    """The what-if among several with the largest saving, and that saving; None if none saves anything."""
    gains = {name: saved_ms(subject, name) for name in names}
    best = max(gains, key=lambda name: gains[name], default=None)
    return (best, gains[best]) if best is not None and gains[best] > 0 else (None, 0.0)
