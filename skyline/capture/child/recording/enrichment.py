"""Copies shapes, arithmetic and memory from a full recording to the rows of a light one."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter


def enrich(light, full):
    """The light trace (both are dictionaries in the shape of ``skyline.trace.Trace``) with what the full one knows.

    An operator is known again by its line, its name, and its place among those of that line and name within
    the iteration. Where their numbers differ it gets what most calls of that line and name showed. Gives
    the share of the operators' time of which the full recording knows nothing.
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
    """Pairs of a kernel of the light recording and the same one of the full recording, where there are as many."""
    known = _by_place(full, kernels=True)
    for place, rows in _by_place(light, kernels=True).items():
        for records in rows.values():
            yield from zip(records, _same_number(known.get(place, {}), len(records)) or (), strict=False)


def _by_place(trace, *, kernels=False):
    """Whole operators, or kernels, by their line and name, then by iteration, in order."""
    found = {}
    for record in trace["records"]:
        if record["kind"] == "kernel" if kernels else record["whole"]:
            place = (_line(trace, record.get("line", -1)), record["name"])
            found.setdefault(place, {}).setdefault(record["iteration"], []).append(record)
    return found


def _line(trace, number):
    """The identity of a line in any recording, independent of its number in this one."""
    if number < 0:
        return None
    line = trace["lines"][number]
    return line["file"], line["line"], line["function"]


def _same_number(iterations, count):
    """The records of an iteration in which there were as many, the last of them; None where there was none."""
    return next(
        (iterations[index] for index in sorted(iterations, reverse=True) if len(iterations[index]) == count),
        None,
    )


def _most_frequent(iterations):
    """A record that shows what most of them do."""
    records = [record for rows in iterations.values() for record in rows]
    [(common, _)] = Counter((record["shape"], record["flops"]) for record in records).most_common(1)
    return next(record for record in records if (record["shape"], record["flops"]) == common)


# Allocations.


def _moved_allocations(light, full):
    """The allocations, put at the times and on the lines that the light recording's last iteration has."""
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
    """Moments of the full recording's last iteration and the same moments of the light one's, both ascending."""
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
