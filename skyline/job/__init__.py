"""Several processes of one training job: their clocks aligned, who waits for whom, and the job run as a whole.

The names below are loaded when they are first used::

    from skyline.job import RankReader, job_of, on_this_machine, trace_files

    with on_this_machine(processes=1) as workers:
        job = job_of(workers.map(RankReader(), [str(path) for path in trace_files(["traces"])]))
    print(job.straggler, job.measured.step_us, job.alignment.clock_us)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyline.job.cluster import on_cluster
    from skyline.job.folder import trace_files
    from skyline.job.job import Job, job_of
    from skyline.job.joining import JobGraph, joined
    from skyline.job.reading import RankReader, read_whole
    from skyline.job.scale_named import ScaleNamed
    from skyline.job.times import simulated
    from skyline.job.workers import on_this_machine

__all__ = [
    "Job",
    "JobGraph",
    "RankReader",
    "ScaleNamed",
    "job_of",
    "joined",
    "on_cluster",
    "on_this_machine",
    "read_whole",
    "simulated",
    "trace_files",
]

_HOMES = {
    "cluster": ("on_cluster",),
    "folder": ("trace_files",),
    "job": ("Job", "job_of"),
    "joining": ("JobGraph", "joined"),
    "reading": ("RankReader", "read_whole"),
    "scale_named": ("ScaleNamed",),
    "times": ("simulated",),
    "workers": ("on_this_machine",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
