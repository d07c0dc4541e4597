"""Running a graph on its lanes: when each task starts and ends, and what the step waits for.

The names below are loaded when they are first used::

    from skyline.graph import load
    from skyline.simulate import critical_tasks, groups_by, simulate

    graph = load("trace.json.gz")
    timeline = simulate(graph)
    print(timeline.makespan_us, [graph.tasks[index].name for index in critical_tasks(timeline)][:5])
    for layer, members in groups_by(graph, "layer").items():
        print(layer, graph.durations[members].sum())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyline.simulate.critical_path import CriticalPath, critical_tasks
    from skyline.simulate.engine import simulate
    from skyline.simulate.groups import groups_by
    from skyline.simulate.steady import steady_step_ms
    from skyline.simulate.timeline import Timeline

__all__ = [
    "CriticalPath",
    "Timeline",
    "critical_tasks",
    "groups_by",
    "simulate",
    "steady_step_ms",
]

_HOMES = {
    "critical_path": ("CriticalPath", "critical_tasks"),
    "engine": ("simulate",),
    "groups": ("groups_by",),
    "steady": ("steady_step_ms",),
    "timeline": ("Timeline",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
