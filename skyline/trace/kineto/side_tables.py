"""Separate tables for data that only some events have: waits, collectives, allocations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyline.trace.kineto.columns import Columns
from skyline.trace.kineto.profiler_trace import Allocations, Collectives, Waits
from skyline.trace.kineto.table import small


def waits_of(columns: Columns, now_at: NDArray[np.int32]) -> Waits:
    """Recorded waits. ``now_at`` is the trace row of each event, by its row in the file; -1 for none."""
    event = now_at[columns.joined("wait_event", np.int64)]
    kept = np.argsort(event, kind="stable")[int((event < 0).sum()) :]
    return Waits(
        event=event[kept],
        kind=columns.joined("wait_kind", np.int32)[kept],
        stream=small(columns.joined("wait_stream", np.int64))[kept],
        recorded_by=columns.joined("wait_recorded_by", np.int64)[kept],
    )


def collectives_of(columns: Columns, now_at: NDArray[np.int32]) -> Collectives:
    """Collective operations in time order."""
    event = now_at[columns.joined("collective_event", np.int64)]
    kept = np.argsort(event, kind="stable")[int((event < 0).sum()) :]

    def column(name: str, kind: type[np.generic]) -> NDArray[Any]:
        return columns.joined(name, kind)[kept]

    return Collectives(
        event=event[kept],
        name=column("collective_name", np.int32),
        element_type=column("collective_type", np.int32),
        elements_in=column("collective_in", np.int64),
        elements_out=column("collective_out", np.int64),
        group=column("collective_group", np.int32),
        group_size=column("collective_size", np.int32),
        ranks=column("collective_ranks", np.int32),
    )


def allocations_of(columns: Columns, first: float) -> Allocations:
    """Allocations by time since the event at ``first``, both in µs."""
    time: NDArray[np.float64] = columns.joined("memory_time", np.float64) - first
    order = np.argsort(time, kind="stable")
    return Allocations(
        time_us=time[order],
        size_bytes=columns.joined("memory_bytes", np.int64)[order],
        device=small(columns.joined("memory_device", np.int64))[order],
        allocated_bytes=columns.joined("memory_allocated", np.int64)[order],
    )
