"""How much of the computing is spread over several threads."""

from __future__ import annotations

from skyline.graph.build import main_lane
from skyline.trace.record import RecordKind, Trace

_SPLIT_FROM_US = 60.0
"""Operators shorter than this are below the grain at which PyTorch splits work among threads."""


def parallel_share(trace: Trace) -> float:
    """The share of the main lane's time, data loading apart, in operators long enough to be split."""
    lane = main_lane(trace)
    working = [
        record for record in trace.records if record.lane == lane and record.kind is not RecordKind.DATA
    ]
    total = sum(record.duration_us for record in working)
    split = sum(
        record.duration_us
        for record in working
        if record.kind is RecordKind.OPERATOR and record.duration_us >= _SPLIT_FROM_US
    )
    return split / total if total else 0.0
