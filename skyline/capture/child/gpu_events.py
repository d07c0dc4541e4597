"""Rows of the GPU's own activity: kernels, copies and fills, each tied to its launch by a correlation id."""

from __future__ import annotations

from torch.autograd import DeviceType


def gpu_records(results, tree):
    """Records of the device's streams within the recorded iterations."""
    records = []
    for event in results.events():
        if event.device_type() == DeviceType.CPU or event.name() == tree.boundary:
            continue
        start_us = tree.microseconds(event.start_ns())
        iteration = tree.iteration_at(start_us)
        if iteration is None or event.duration_ns() <= 0:
            continue
        is_copy = event.name().startswith(("Memcpy", "Memset"))
        records.append(
            {
                "name": event.name(),
                "kind": "copy" if is_copy else "kernel",
                "phase": "communication" if event.name().startswith(("nccl", "ncclDevKernel")) else "other",
                "lane": f"gpu{event.device_index()}:stream{event.device_resource_id()}",
                "iteration": iteration,
                "start_us": start_us,
                "duration_us": event.duration_ns() / 1e3,
                "correlation": event.linked_correlation_id() or event.correlation_id(),
            }
        )
    return records
