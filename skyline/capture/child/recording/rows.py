"""Processes records after the walk through the event tree: phases, clipping, merging, and memory kept by modules."""

from __future__ import annotations

import itertools
import linecache
import re
from bisect import bisect_left

_FETCHES = re.compile(r"batch|data|sample|loader|fetch|\.to\(|\.cuda\(", re.IGNORECASE)
_ASSIGNS_OR_LOOPS = re.compile(r"^\s*(for\b|[\w\s,\[\]().*]+=[^=])")


def settle_phases(records, lines):
    """The records (dictionaries with scratch keys ``grad`` and ``root_call``) with their final phases.

    - A module call without a backward pass for any of its operators is evaluation, not forward, unless nothing trains.
    - An operator outside all modules that has a backward pass (a loss, a product) is forward, and so is the
      interpreter time of its line directly before and after it. Other time of the line may be anything: a training
      loop in a library is a single line.
    - A statement of the training loop that assigns or iterates over something called batch, data or sample, and
      that has work in no other phase, is data loading written by hand.
    """
    trained = {record["root_call"] for record in records if record["grad"]}
    trains = any(record["phase"] == "backward" for record in records)
    for record in records:
        if trains and record["phase"] == "forward" and record["root_call"] not in trained:
            record["phase"] = "other"
        elif record["phase"] == "other" and record["grad"]:
            record["phase"] = "forward"
    lanes = {}
    for record in sorted(records, key=lambda record: record["start_us"]):
        lanes.setdefault(record["lane"], []).append(record)
    for lane in lanes.values():
        _join_interpreter_time(lane)
        _join_interpreter_time(reversed(lane))
    busy = {record["call_line"] for record in records if record["phase"] not in ("other", "data")}
    fetching = {
        index
        for index in {record["call_line"] for record in records}
        if index >= 0 and index not in busy and is_fetching(lines[index])
    }
    for record in records:
        if record["phase"] == "other" and record["call_line"] in fetching:
            record["phase"] = "data"
    return records


def _join_interpreter_time(records):
    """Make interpreter time forward that directly follows a forward operator of its line."""
    line = None
    for record in records:
        if record["kind"] != "python":
            line = record["line"] if record["phase"] == "forward" and record["grad"] else None
        elif record["line"] != line:
            line = None
        elif record["phase"] == "other":
            record["phase"] = "forward"


def is_fetching(line):
    """True if a line of the training loop assigns or iterates over something called batch, data or sample."""
    text = linecache.getline(line["file"], line["line"])
    return bool(_ASSIGNS_OR_LOOPS.match(text) and _FETCHES.search(text))


_SAME = ("name", "kind", "phase", "iteration", "line", "call_line", "module", "function")


def iterations_between(marks, microseconds):
    """The iterations between successive markers, which are nodes of the event tree in order."""
    return [
        {
            "index": index,
            "start_us": microseconds(before.end_time_ns),
            "end_us": microseconds(after.start_time_ns),
        }
        for index, (before, after) in enumerate(itertools.pairwise(marks))
    ]


def clipped(records, iterations):
    """The records within iterations, cut at the boundaries."""
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
    """The records, with neighbours on a lane merged if they differ only in time."""
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


def kept_bytes(allocations, records, paths):
    """Bytes by module path that are allocated within a module and still live when backward work begins.

    ``allocations`` are those of one iteration; their ``module`` is an index into ``paths``. With several
    micro-batches, it is the maximum over them.
    """
    backward = sorted(record["start_us"] for record in records if record["phase"] == "backward")
    taken, kept = {}, {}

    def settle(block, until):
        begins = bisect_left(backward, block["time_us"])
        if block["module"] >= 0 and begins < len(backward) and until >= backward[begins]:
            sizes = kept.setdefault(begins, {})
            sizes[block["module"]] = sizes.get(block["module"], 0) + block["size_bytes"]

    for allocation in sorted(allocations, key=lambda row: row["time_us"]):
        if allocation["size_bytes"] > 0:
            if allocation["phase"] == "forward":
                taken[allocation["address"]] = allocation
        else:
            block = taken.pop(allocation["address"], None)
            if block is not None:
                settle(block, allocation["time_us"])
    for block in taken.values():
        settle(block, float("inf"))
    return _largest(kept.values(), paths)


def _largest(passes, paths):
    """The maximum that each module keeps in any pass, including all its submodules."""
    largest = {}
    for sizes in passes:
        total = {}
        for number, size in sizes.items():
            parts = paths[number].split(".")
            for depth in range(1, len(parts) + 1):
                path = ".".join(parts[:depth])
                total[path] = total.get(path, 0) + size
        for path, size in total.items():
            largest[path] = max(largest.get(path, 0), size)
    return largest
