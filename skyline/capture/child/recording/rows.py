"""Records as rows: cut at the iterations' ends, and neighbours merged."""

from __future__ import annotations

import itertools

_SAME = ("name", "kind", "phase", "iteration", "line", "call_line", "module", "function")


def iterations_between(marks, microseconds):
    """An iteration between each two markers, which are nodes of the event tree in order."""
    return [
        {
            "index": index,
            "start_us": microseconds(before.end_time_ns),
            "end_us": microseconds(after.start_time_ns),
        }
        for index, (before, after) in enumerate(itertools.pairwise(marks))
    ]


def clipped(records, iterations):
    """The records of the iterations alone, cut where one begins or ends."""
    records.sort(key=lambda record: record["start_us"])
    rows = []
    for mark in iterations:
        for record in records:
            start = max(record["start_us"], mark["start_us"])
            end = min(record["start_us"] + record["duration_us"], mark["end_us"])
            if end > start:
                rows.append(dict(record, start_us=start, duration_us=end - start, iteration=mark["index"]))
    return rows


def coalesced(records):
    """Neighbours on a lane that differ in nothing but their time become one row."""
    rows = []
    last = {}
    for record in records:
        for scratch in ("root_call", "grad"):
            record.pop(scratch, None)
        before = last.get(record["lane"])
        if (
            before is not None
            and record["kind"] in ("python", "data")
            and not (record["whole"] or before["whole"])
            and all(before[key] == record[key] for key in _SAME)
            and record["start_us"] - (before["start_us"] + before["duration_us"]) < 0.002
        ):
            before["duration_us"] = record["start_us"] + record["duration_us"] - before["start_us"]
            before["recording_us"] += record["recording_us"]
        else:
            rows.append(record)
            last[record["lane"]] = record
    return rows
