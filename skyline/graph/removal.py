"""Taking tasks out of a graph without losing the order that held through them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from skyline.graph.graph import Cause, Dependency, Graph, Structure


def remove(graph: Graph, chosen: Iterable[int], *, keep_gaps: bool = True) -> Graph:
    """Without the chosen tasks: who waited for one of them waits for what it waited for.

    The gap of a removed CPU task moves to the task before it on its lane, because Python still runs there,
    unless ``keep_gaps`` is false.
    """
    gone = frozenset(chosen)
    structure = graph.structure
    gaps = list(graph.gaps)
    waits: dict[int, list[Dependency]] = {}
    for index in structure.order:
        resolved: list[Dependency] = []
        for dependency in structure.incoming[index]:
            if dependency.source in gone:
                resolved += [_inherited(dependency, through) for through in waits[dependency.source]]
            else:
                resolved.append(dependency)
        before = structure.before[index]
        if index in gone and before >= 0:
            # The lane's order is not a dependency, but those who waited for this task relied on it.
            passed_on = waits[before] if before in gone else [Dependency(before, index, Cause.HAND_OFF)]
            resolved += [replace(dependency, target=index) for dependency in passed_on]
        waits[index] = resolved
        if index in gone and keep_gaps:
            while before in gone:
                before = structure.before[before]
            if before >= 0:
                gaps[before] += gaps[index]
    stay = [index for index in range(len(graph.tasks)) if index not in gone]
    place = {old: new for new, old in enumerate(stay)}
    kept = {
        (dependency.source, dependency.target, dependency.cause, dependency.from_start): dependency
        for index in stay
        for dependency in sorted(waits[index], key=lambda dependency: dependency.lag_us)
        if graph.tasks[dependency.source].lane != graph.tasks[index].lane
    }
    return Graph(
        Structure(
            tuple(graph.tasks[index] for index in stay),
            tuple(
                replace(dependency, source=place[dependency.source], target=place[dependency.target])
                for dependency in kept.values()
            ),
        ),
        tuple(graph.durations[index] for index in stay),
        tuple(gaps[index] for index in stay),
    )


def _inherited(dependency: Dependency, through: Dependency) -> Dependency:
    """What waits for a removed task waits, as long after, for what that task waited for."""
    return replace(
        dependency,
        source=through.source,
        lag_us=dependency.lag_us + through.lag_us,
        from_start=through.from_start,
    )
