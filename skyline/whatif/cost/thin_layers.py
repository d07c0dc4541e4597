"""The parallel share of layers with smaller weights, from their trials on two numbers of threads."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.interval import median
from skyline.trace.profile import Profile
from skyline.trace.record import Phase
from skyline.trace.trial import KroneckerTrial, SplitTrial, divided_part
from skyline.whatif.replaced_work import ReplacedWork

Passes = tuple[ReplacedWork | None, ReplacedWork | None]
"""The work of a layer in a forward and in a backward pass."""


def split_parts(profile: Profile, narrowest: int) -> Passes:
    """The work of thin products, from the trials with the nearest narrowest side; None if none was tried twice."""
    own = [one for one in profile.split_trials if one.threads is None]
    pairs = [
        (one, other)
        for one in own
        for other in profile.split_trials
        if other.threads is not None and _size(one) == _size(other)
    ]
    if not pairs:
        return None, None
    sides = {min(one.rows, one.rank) for one, _ in pairs}
    nearest = min(sides, key=lambda side: abs(log(side / max(1, narrowest))))
    near = [pair for pair in pairs if min(pair[0].rows, pair[0].rank) == nearest]
    forward, backward = (
        median([_part(profile, one, other, back=back) for one, other in near]) for back in (False, True)
    )
    return ReplacedWork(forward, with_call=False), ReplacedWork(backward, with_call=False)


def kronecker_parts(profile: Profile, trial: KroneckerTrial) -> Passes:
    """The work of a layer with factors, or of making a weight of them; None if it was tried once."""
    for other in profile.kronecker_trials:
        if other.threads is not None and _factors(other) == _factors(trial):
            forward, backward = (_part(profile, trial, other, back=back) for back in (False, True))
            return ReplacedWork(forward), ReplacedWork(backward)
    return None, None


def by_record(graph: Graph, chosen: Indices, layers: Mapping[str, Passes]) -> dict[int, ReplacedWork]:
    """The work of the chosen tasks by row of the recording. ``layers`` has the work of each layer by its path."""
    found: dict[int, ReplacedWork] = {}
    for task in chosen.tolist():
        row = int(graph.tasks.origin[task])
        forward, backward = layers.get(graph.structure.modules[int(graph.tasks.module[task])], (None, None))
        work = backward if int(graph.tasks.phase[task]) == PHASE[Phase.BACKWARD] else forward
        if row >= 0 and work is not None:
            found[row] = work
    return found


def _part(
    profile: Profile,
    own: SplitTrial | KroneckerTrial,
    other: SplitTrial | KroneckerTrial,
    *,
    back: bool,
) -> float:
    own_us, other_us = (one.backward_us[1] if back else one.forward_us[1] for one in (own, other))
    assert other.threads is not None
    part = divided_part(own_us / other_us, profile.environment.intraop_threads, other.threads)
    return min(1.0, max(0.0, part))


def _size(trial: SplitTrial) -> tuple[int, ...]:
    return trial.rows, trial.inner, trial.columns, trial.rank


def _factors(trial: KroneckerTrial) -> tuple[int, ...]:
    return trial.rows, trial.inner, trial.columns, trial.blocks
