"""The dependency graph of recorded iterations: tasks on lanes, the dependencies between them, and changes.

Names are imported on first use. Each change is a function from a graph to a new graph. The new graph shares
all unchanged columns with the old one::

    from skyline.graph import load, scale, select
    from skyline.simulate.engine import simulate

    graph = load("trace.json.gz")
    faster = scale(graph, select(graph, name="gemm", on_gpu=True), 0.5)
    print(simulate(faster).makespan_us / simulate(graph).makespan_us)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.first_use import on_first_use

if TYPE_CHECKING:
    from skyline.graph.dependency import Cause, CyclicGraph, Dependencies, Dependency
    from skyline.graph.graph import Graph, Structure, add_dependencies, cut_dependencies, scale
    from skyline.graph.insertion import InsertedGpuWork, Insertion, insert, insert_gpu_work
    from skyline.graph.launching import launched_by, launches_of
    from skyline.graph.loading import load
    from skyline.graph.merging import coalesce, merge
    from skyline.graph.removal import remove
    from skyline.graph.replication import replicate, stitch
    from skyline.graph.scheduling import in_recorded_order, prioritise
    from skyline.graph.selection import Criteria, select
    from skyline.graph.task import Task, TaskKind, Tasks, WorkClass
    from skyline.trace.record import Phase

__all__ = [
    "Cause",
    "Criteria",
    "CyclicGraph",
    "Dependencies",
    "Dependency",
    "Graph",
    "InsertedGpuWork",
    "Insertion",
    "Phase",
    "Structure",
    "Task",
    "TaskKind",
    "Tasks",
    "WorkClass",
    "add_dependencies",
    "coalesce",
    "cut_dependencies",
    "in_recorded_order",
    "insert",
    "insert_gpu_work",
    "launched_by",
    "launches_of",
    "load",
    "merge",
    "prioritise",
    "remove",
    "replicate",
    "scale",
    "select",
    "stitch",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "dependency": ("Cause", "CyclicGraph", "Dependencies", "Dependency"),
        "graph": ("Graph", "Structure", "add_dependencies", "cut_dependencies", "scale"),
        "insertion": ("InsertedGpuWork", "Insertion", "insert", "insert_gpu_work"),
        "launching": ("launched_by", "launches_of"),
        "loading": ("load",),
        "merging": ("coalesce", "merge"),
        "removal": ("remove",),
        "replication": ("replicate", "stitch"),
        "scheduling": ("in_recorded_order", "prioritise"),
        "selection": ("Criteria", "select"),
        "task": ("Phase", "Task", "TaskKind", "Tasks", "WorkClass"),
    },
)
