"""Copies shapes, arithmetic and memory from a full recording to the rows of a light one."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter


def enrich(light, full):
    """Add facts of the full trace to the light one (dictionaries with the fields of ``skyline.trace.Trace``).

    An operator is matched by its line, its name, and its index among the operators with that line and name in the
    iteration. If the numbers of these differ, it gets the most frequent facts of that line and name. Returns the
    share of operator time without a match in the full recording.
    """
    known = _by_place(full)
    shown = {place: _most_frequent(rows) for place, rows in known.items()}
    total_us = unknown_us = 0.0
    for place, rows in _by_place(light).items():
        for records in rows.values():
            like = _same_number(known.get(place, {}), len(records))
            for index, record in enumerate(records):
                total_us += record["duration_us"]
                source = like[index] if like is not None else shown.get(place)
                if source is None:
                    unknown_us += record["duration_us"]
                else:
                    record["shape"], record["flops"] = source["shape"], source["flops"]
    for record, source in _kernels(light, full):
        record["shape"] = source["shape"]
    light["shapes"] = full["shapes"]
    light["allocations"] = _moved_allocations(light, full)
    return unknown_us / total_us if total_us else 0.0


def _kernels(light, full):
    """Pairs of matching kernels of the light and the full recording, where both have the same number."""
    known = _by_place(full, kernels=True)
    for place, rows in _by_place(light, kernels=True).items():
        for records in rows.values():
            yield from zip(records, _same_number(known.get(place, {}), len(records)) or (), strict=False)


def _by_place(trace, *, kernels=False):
    """Whole operators, or kernels, by line and name, then by iteration, in order."""
    found = {}
    for record in trace["records"]:
        if record["kind"] == "kernel" if kernels else record["whole"]:
            place = (_line(trace, record.get("line", -1)), record["name"])
            found.setdefault(place, {}).setdefault(record["iteration"], []).append(record)
    return found


def _line(trace, number):
    """The identity of a line across recordings, independent of its number in this one."""
    if number < 0:
        return None
    line = trace["lines"][number]
    return line["file"], line["line"], line["function"]


def _same_number(iterations, count):
    """The records of the last iteration that has this number of them; None if there is no such iteration."""
    return next(
        (iterations[index] for index in sorted(iterations, reverse=True) if len(iterations[index]) == count),
        None,
    )


def _most_frequent(iterations):
    """A record with the most frequent shape and arithmetic."""
    records = [record for rows in iterations.values() for record in rows]
    [(common, _)] = Counter((record["shape"], record["flops"]) for record in records).most_common(1)
    return next(record for record in records if (record["shape"], record["flops"]) == common)


# Allocations.


def _moved_allocations(light, full):
    """The allocations, moved to the times and lines of the light recording's last iteration."""
    lines = {_line(light, number): number for number in range(len(light["lines"]))}
    befores, afters = _anchors(light, full)
    moved = []
    for allocation in full["allocations"]:
        number = allocation["line"]
        if number >= 0:
            line = _line(full, number)
            if line not in lines:
                lines[line] = len(light["lines"])
                light["lines"].append(full["lines"][number])
            number = lines[line]
        moved.append(
            dict(allocation, line=number, time_us=_interpolated(allocation["time_us"], befores, afters))
        )
    return moved


def _anchors(light, full):
    """Matching times in the last iterations of the full and the light recording, both ascending."""
    before, after = full["iterations"][-1], light["iterations"][-1]
    others = _by_place(light)
    pairs = []
    for place, rows in _by_place(full).items():
        here = rows.get(before["index"], ())
        there = others.get(place, {}).get(after["index"], ())
        if len(here) == len(there):
            for index, record in enumerate(here):
                start, end = record["start_us"], there[index]["start_us"]
                pairs.append((start, end))
                pairs.append((start + record["duration_us"], end + there[index]["duration_us"]))
    befores, afters = [before["start_us"]], [after["start_us"]]
    for start, end in [*sorted(pairs), (before["end_us"], after["end_us"])]:
        if start > befores[-1] and afters[-1] <= end <= after["end_us"]:
            befores.append(start)
            afters.append(end)
    return befores, afters


def _interpolated(time_us, befores, afters):
    index = min(max(bisect_right(befores, time_us), 1), len(befores) - 1)
    start, end = befores[index - 1], befores[index]
    share = min(max((time_us - start) / (end - start), 0.0), 1.0)
    return afters[index - 1] + share * (afters[index] - afters[index - 1])
