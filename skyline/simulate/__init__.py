"""Simulation of a graph on its lanes: start and end of each task, and the causes of the step's duration.

The names below are imported on first use::

    from skyline.graph import load
    from skyline.simulate import critical_tasks, groups_by, simulate

    graph = load("trace.json.gz")
    timeline = simulate(graph)
    print(timeline.makespan_us, [graph.tasks[index].name for index in critical_tasks(timeline)][:5])
    for layer, members in groups_by(graph, "layer").items():
        print(layer, graph.durations[members].sum())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.first_use import on_first_use

if TYPE_CHECKING:
    from skyline.simulate.critical_path import critical_tasks
    from skyline.simulate.critical_shares import CriticalPath
    from skyline.simulate.engine import Timeline, simulate, steady_step_ms
    from skyline.simulate.groups import groups_by
    from skyline.simulate.scheduling import schedule

__all__ = [
    "CriticalPath",
    "Timeline",
    "critical_tasks",
    "groups_by",
    "schedule",
    "simulate",
    "steady_step_ms",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "critical_path": ("critical_tasks",),
        "critical_shares": ("CriticalPath",),
        "engine": ("Timeline", "simulate", "steady_step_ms"),
        "groups": ("groups_by",),
        "scheduling": ("schedule",),
    },
)
