"""The processes of one training job: aligns their clocks, finds who waits for whom, and simulates the whole job.

The names below are loaded when they are first used::

    from skyline.job import RankReader, job_of, on_this_machine, trace_files

    with on_this_machine(processes=1) as workers:
        job = job_of(workers.map(RankReader(), [str(path) for path in trace_files(["traces"])]))
    print(job.straggler, job.measured.step_us, job.alignment.clock_us)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.first_use import on_first_use

if TYPE_CHECKING:
    from skyline.job.job import Job, job_of
    from skyline.job.job_graph import JobGraph, joined
    from skyline.job.rank_reader import RankReader, ScaleNamed, read_whole, trace_files
    from skyline.job.times import simulated
    from skyline.job.workers import on_cluster, on_this_machine

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

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "job": ("Job", "job_of"),
        "job_graph": ("JobGraph", "joined"),
        "rank_reader": ("RankReader", "ScaleNamed", "read_whole", "trace_files"),
        "times": ("simulated",),
        "workers": ("on_cluster", "on_this_machine"),
    },
)
