"""Rows of the GPU's own activity: kernels, copies and fills, each tied to its launch by a correlation id."""

from __future__ import annotations

from torch.autograd import DeviceType

_COPIES = ("Memcpy", "Memset")
_COLLECTIVES = ("nccl", "ncclDevKernel", "ncclKernel")
_OF_THE_LAUNCH = ("phase", "line", "call_line", "module", "function")


def gpu_records(events, records, tree):
    """Records of the device's streams within the recorded iterations.

    A kernel works on behalf of the line that launched it; all kernels of a CUDA graph on behalf of the one that
    launched the graph. ``events`` are those of the profiler's result, ``records`` those of the threads.
    """
    launches = {
        record["correlation"]: record
        for record in records
        if record["kind"] == "runtime" and record["correlation"]
    }
    rows = []
    for event in events:
        if event.device_type() == DeviceType.CPU or _is_annotation(event, tree):
            continue
        start_us = tree.microseconds(event.start_ns())
        iteration = tree.iteration_at(start_us)
        if iteration is None or event.duration_ns() <= 0:
            continue
        name = event.name()
        row = {
            "name": name,
            "kind": "copy" if name.startswith(_COPIES) else "kernel",
            "phase": "other",
            "lane": f"gpu{event.device_index()}:stream{event.device_resource_id()}",
            "iteration": iteration,
            "start_us": start_us,
            "duration_us": event.duration_ns() / 1e3,
            # The runtime's own number, which the launch carries too. The linked one is the operator's, shared by
            # all kernels of that operator.
            "correlation": event.correlation_id() or event.linked_correlation_id(),
        }
        launch = launches.get(row["correlation"])
        if launch is not None:
            row.update({key: launch[key] for key in _OF_THE_LAUNCH})
        if name.startswith(_COLLECTIVES):
            row["phase"] = "communication"
        rows.append(row)
    return rows


def _is_annotation(event, tree):
    """Spans that the script opened are shown on the GPU as well, around the kernels launched within them."""
    return event.name() == tree.boundary or getattr(event, "is_user_annotation", bool)()
