"""Events of Chrome's trace format: JSON objects with a process, a thread, a start and a duration in µs.

A process is one side (measured or simulated), a thread is one lane.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any

import msgspec
import numpy as np

from skyline.graph.column import Flags, Ids
from skyline.graph.launching import launches
from skyline.graph.task import KIND, KINDS, PHASES, TaskKind
from skyline.simulate.critical_path import causes_of, chain_us, critical_chain
from skyline.simulate.critical_shares import CriticalPath
from skyline.simulate.engine import Timeline

Event = dict[str, Any]

CRITICAL_LANE, STEP_LANE, FIRST_LANE = 1, 2, 3
"""Threads of their own, above the threads of the lanes."""
FORMAT = "skyline.timelines/1"
"""A mark in the file's first bytes that shows to readers that the file is no recording."""
_CAUSES = tuple(CriticalPath.__dataclass_fields__)


def span(name: str, category: str, process: int, thread: int, start_us: float, end_us: float) -> Event:
    """An event with a duration. Both ends are rounded, so that adjacent events stay adjacent."""
    begin = round(start_us, 3)
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": begin,
        "dur": round(round(end_us, 3) - begin, 3),
    }


def headings(process: int, name: str, lanes: Mapping[str, int]) -> list[Event]:
    """The names and the order of a process and its threads."""
    events: list[Event] = [
        {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}},
        {"name": "process_sort_index", "ph": "M", "pid": process, "args": {"sort_index": process}},
    ]
    for lane, thread in lanes.items():
        base: Event = {"ph": "M", "pid": process, "tid": thread}
        events.append({**base, "name": "thread_name", "args": {"name": lane}})
        events.append({**base, "name": "thread_sort_index", "args": {"sort_index": thread}})
    return events


def arrow(
    category: str, number: int, process: int, start: tuple[int, float], end: tuple[int, float]
) -> tuple[Event, Event]:
    """An arrow from one span to another, each given by thread and start in µs. Numbers are unique in a file."""
    base: Event = {"name": category, "cat": category, "id": number, "pid": process}
    return (
        {**base, "ph": "s", "tid": start[0], "ts": round(start[1], 3)},
        {**base, "ph": "f", "bp": "e", "tid": end[0], "ts": round(end[1], 3)},
    )


def lanes_of(lanes: Iterable[str]) -> dict[str, int]:
    """A thread number for each lane, in the order of first use."""
    return {lane: index for index, lane in enumerate(dict.fromkeys(lanes), start=FIRST_LANE)}


def simulated_events(
    process: int,
    timeline: Timeline,
    lanes: Mapping[str, int],
    *,
    offset_us: float = 0.0,
    place: Callable[[int], str] = lambda line: "",
    first_arrow: int = 0,
) -> Iterator[Event]:
    """The tasks that take time, arrows from launches to the launched work, and the critical path as a lane.

    ``place`` gives the line of a task in words; ``first_arrow`` is a number above all earlier arrows.
    """
    graph = timeline.graph
    tasks, modules = graph.tasks, graph.structure.modules
    starts, ends = (timeline.starts + offset_us).tolist(), (timeline.ends + offset_us).tolist()
    task_threads = threads_of(timeline, lanes)
    names: list[int] = tasks.name.tolist()
    kinds: list[int] = tasks.kind.tolist()
    phases: list[int] = tasks.phase.tolist()
    layers: list[int] = tasks.module.tolist()
    lines: list[int] = tasks.line.tolist()
    # Points on the host's threads are no work; a kernel whose length was rounded to zero is work.
    working = (timeline.ends > timeline.starts) | (tasks.kind != KIND[TaskKind.CPU])
    shown: list[int] = np.flatnonzero(working).tolist()
    for task in shown:
        event = span(
            tasks.names[names[task]],
            PHASES[phases[task]].value,
            process,
            task_threads[task],
            starts[task],
            ends[task],
        )
        arguments = {"kind": KINDS[kinds[task]].value, "line": place(lines[task])}
        if 0 <= layers[task] < len(modules):
            arguments["module"] = modules[layers[task]]
        yield {**event, "args": {key: value for key, value in arguments.items() if value}}
    yield from launch_arrows("launch, simulated", process, timeline, task_threads, starts, first_arrow)
    yield from _critical_events(process, timeline, offset_us)


def threads_of(timeline: Timeline, lanes: Mapping[str, int]) -> list[int]:
    """The thread of each task."""
    tasks = timeline.graph.tasks
    thread = [lanes.get(lane, FIRST_LANE) for lane in tasks.lanes]
    codes: list[int] = tasks.lane.tolist()
    return [thread[lane] for lane in codes]


def launch_arrows(
    category: str,
    process: int,
    timeline: Timeline,
    threads: list[int],
    starts: list[float],
    first_arrow: int,
    hidden: Flags | None = None,
) -> Iterator[Event]:
    """Arrows from calls to the work that they launched, except hidden work; lists and flags cover all tasks."""
    tasks, found = timeline.graph.tasks, launches(timeline.graph)
    found = found.taken(tasks.kind[found.source] != KIND[TaskKind.CPU])
    if hidden is not None:
        found = found.taken(~hidden[found.target])
    sources: list[int] = found.source.tolist()
    targets: list[int] = found.target.tolist()
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        yield from arrow(
            category,
            first_arrow + number,
            process,
            (threads[source], starts[source]),
            (threads[target], starts[target]),
        )


def _critical_events(process: int, timeline: Timeline, offset_us: float) -> Iterator[Event]:
    """The critical path of the step in time order; neighbouring tasks with one name and cause are one span."""
    chain: Ids = critical_chain(timeline)
    if not len(chain):
        return
    tasks = timeline.graph.tasks
    start, end, _ = chain_us(timeline, chain, 0.0, timeline.makespan_us)
    causes: list[int] = causes_of(tasks, chain).tolist()
    names: list[int] = tasks.name[chain].tolist()
    named = [tasks.names[name] for name in names]
    held: tuple[str, str, float, float] | None = None
    for name, cause, begin, until in zip(named, causes, start.tolist(), end.tolist(), strict=True):
        if until <= begin:
            continue
        if held is not None and held[:2] == (name, _CAUSES[cause]) and begin - held[3] < 1e-3:
            held = (*held[:3], until)
            continue
        if held is not None:
            yield _critical(process, held, offset_us)
        held = (name, _CAUSES[cause], begin, until)
    if held is not None:
        yield _critical(process, held, offset_us)


def _critical(process: int, held: tuple[str, str, float, float], offset_us: float) -> Event:
    name, cause, begin, until = held
    return span(name, cause, process, CRITICAL_LANE, begin + offset_us, until + offset_us)


def document(events: Iterable[Event], about: Mapping[str, Any]) -> bytes:
    """The file, gzipped; equal events always give equal bytes. Events are written one by one."""
    encoder = msgspec.json.Encoder()
    packed = BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0, filename="") as file:
        file.write(
            b'{"displayTimeUnit":"ms","otherData":'
            + encoder.encode({"format": FORMAT, **about})
            + b',"traceEvents":['
        )
        for number, event in enumerate(events):
            file.write((b",\n" if number else b"\n") + encoder.encode(event))
        file.write(b"\n]}\n")
    return packed.getvalue()
