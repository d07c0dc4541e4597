"""Rows of what devices did: kernels, copies and fills, each tied to its launch by a correlation id."""

from __future__ import annotations

_COLLECTIVES = ("nccl", "rccl", "ncclDevKernel", "ncclKernel")
_OF_THE_LAUNCH = ("phase", "line", "call_line", "module", "function")


def gpu_records(work, records, tree):
    """Records of the devices' streams within the recorded iterations.

    A kernel works on behalf of the line that launched it; all kernels of a CUDA graph on behalf of the one that
    launched the graph. ``work`` are an ``Activity`` each, ``records`` the rows of the threads.
    """
    launches = {
        record["correlation"]: record
        for record in records
        if record["kind"] == "runtime" and record["correlation"]
    }
    rows = []
    for activity in work:
        start_us = tree.microseconds(activity.start_ns)
        iteration = tree.iteration_at(start_us)
        if iteration is None or activity.duration_ns <= 0:
            continue
        row = {
            "name": activity.name,
            "kind": "copy" if activity.is_copy else "kernel",
            "phase": "other",
            "lane": f"gpu{activity.device}:stream{activity.stream}",
            "iteration": iteration,
            "start_us": start_us,
            "duration_us": activity.duration_ns / 1e3,
            "correlation": activity.correlation,
            "whole": False,
        }
        launch = launches.get(activity.correlation)
        if launch is not None:
            row.update({key: launch[key] for key in _OF_THE_LAUNCH})
        if activity.name.startswith(_COLLECTIVES):
            row["phase"] = "communication"
        rows.append(row)
    return rows
