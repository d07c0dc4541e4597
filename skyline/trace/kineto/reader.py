"""Reads a profiler trace: a file of any version becomes one normalised table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import floor
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.columns import Columns, small
from skyline.trace.kineto.container import pieces
from skyline.trace.kineto.notes import NoteKind, Notes
from skyline.trace.kineto.profiler_trace import (
    Allocations,
    Collectives,
    HostThread,
    MarkedSteps,
    ProfilerTrace,
    Waits,
)
from skyline.trace.kineto.root import Root, facts_of
from skyline.trace.kineto.window import TextWindow

_STREAM = re.compile(r"(?:stream\s*)?(-?\d{1,18})")


@dataclass(frozen=True, slots=True)
class TracePlaces:
    """Columns of a trace with the places of its events, and the threads that they index."""

    thread: NDArray[np.int32]
    device: NDArray[np.int32]
    stream: NDArray[np.int32]
    threads: tuple[HostThread, ...]


def places_of(
    written: Sequence[tuple[int | str, int | str]],
    names: dict[tuple[str, str], str],
    place: NDArray[np.int32],
    category: NDArray[np.uint8],
    device: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> TracePlaces:
    """Threads of host events; devices and streams of the others, from the arguments or else from the place.

    ``written`` are the (process, thread) pairs of the file, ``place`` is the row of each event in them. A number and a
    text may refer to the same thread: profiler versions mix them in one file.
    """
    on_gpu = category >= int(Category.GPU_ANNOTATION)
    keys = [(str(process), str(thread)) for process, thread in written]
    used = np.zeros(len(keys), bool)
    used[place[~on_gpu]] = True
    rows: dict[tuple[str, str], int] = {}
    thread_of = np.array(
        [
            rows.setdefault(key, len(rows)) if used[number] else -1
            for number, key in enumerate(keys)
        ],
        np.int32,
    )  # fmt: skip
    threads = tuple(HostThread(process, thread, names.get((process, thread), "")) for process, thread in rows)
    place_device = np.array([_number(process) for process, _ in keys], np.int64)
    place_stream = np.array([_number(thread) for _, thread in keys], np.int64)
    device = np.where(device < 0, place_device[place], device)
    stream = np.where(stream < 0, place_stream[place], stream)
    nowhere = np.int32(-1)
    return TracePlaces(
        thread=np.where(on_gpu, nowhere, thread_of[place]),
        device=np.where(on_gpu, small(device), nowhere),
        stream=np.where(on_gpu, small(stream), nowhere),
        threads=threads,
    )


def _number(text: str) -> int:
    found = _STREAM.fullmatch(text)
    return int(found.group(1)) if found else -1


_DAY_US = 86_400e6
_ALWAYS_READ_EVENTS = 2_000_000
_BYTES_OF_AN_EVENT = 4
"""Packing ratio that bounds the number of events per file: traces of PyTorch reach 10 to 40. An event takes about 300
bytes of memory while it is read. A file made to exhaust memory thus takes less than 1 GB, or 75 times its size."""


def read(path: Path) -> ProfilerTrace:
    """Read one process's PyTorch profiler trace, plain or gzip, of any version since 2020.

    Damaged and missing parts are omitted and reported in ``notes``. Raises UsageError for a file that cannot be opened,
    is not a profiler trace, or contains no usable event.
    """
    path = Path(path)
    notes = Notes()
    window = TextWindow(pieces(path, notes))
    root = Root(window, path, notes)
    columns = Columns(notes)
    count, most = 0, 0
    for stretch in root.stretches():
        count += len(stretch)
        most = most or max(_ALWAYS_READ_EVENTS, path.stat().st_size // _BYTES_OF_AN_EVENT)
        if count > most:
            raise UsageError(
                f"{path} holds more than {most:,} events, unlike any profiler trace of its size",
                hint="If it is a trace, unpack it first: gunzip FILE.",
            )
        columns.take(stretch)
    for name, count in columns.unknown_categories():
        what = f"Events of the unknown category {name}" if name else "Events without a category"
        notes.count(NoteKind.LEFT_OUT, what, count)
    return _trace(columns, root, notes, path)


def _trace(columns: Columns, root: Root, notes: Notes, path: Path) -> ProfilerTrace:
    start: NDArray[np.float64] = columns.joined("start_us", np.float64)
    category: NDArray[np.uint8] = columns.joined("category", np.uint8)
    duration: NDArray[np.float64] = columns.joined("duration_us", np.float64)
    if not len(start):
        raise UsageError(
            f"{path} holds no event with a time",
            hint="Record again; the schedule may have had no active step.",
        )
    near = np.abs(start - np.median(start)) <= _DAY_US
    far = len(start) - int(near.sum())
    notes.count(NoteKind.LEFT_OUT, "Events that lie more than a day from the rest", far)
    external_id: NDArray[np.int64] = columns.joined("external_id", np.int64)
    python_id: NDArray[np.int64] = columns.joined("python_id", np.int64)
    order = _order(start, duration, category, external_id, python_id)
    order = order[near[order]]
    first = float(start[order[0]])
    start, duration, category = start[order] - first, duration[order], category[order]

    def whole(name: str) -> NDArray[np.int64]:
        # One at a time: the chunks of a column are freed before the next one is joined.
        return columns.joined(name, np.int64)[order]

    def text(name: str) -> NDArray[np.int32]:
        return columns.joined(name, np.int32)[order]

    name = text("name")
    places = places_of(
        list(columns.places), columns.thread_names, text("place"), category, whole("device"), whole("stream")
    )
    now_at = -np.ones(len(near), np.int32)
    now_at[order] = np.arange(len(order), dtype=np.int32)
    waits, collectives = waits_of(columns, now_at), collectives_of(columns, now_at)
    strings = columns.strings.all()
    facts = facts_of(root.facts)
    processes = _processes(places.threads, places.thread[category == int(Category.CPU_OP)])
    if len(processes) > 1:
        notes.count(NoteKind.DOUBTFUL, "Processes whose operators the file holds", len(processes))
    return ProfilerTrace(
        category=category,
        start_us=start,
        duration_us=duration,
        name=name,
        thread=places.thread,
        device=places.device,
        stream=places.stream,
        correlation=whole("correlation"),
        sequence=whole("sequence"),
        forward_thread=whole("forward_thread"),
        size_bytes=whole("size_bytes"),
        occupancy=columns.joined("occupancy", np.float32)[order],
        python_module=whole("python_module"),
        stack=text("stack"),
        module_path=text("module_path"),
        shapes=text("shapes"),
        types=text("types"),
        strings=strings,
        threads=places.threads,
        steps=steps_of(strings, name, category, start, duration),
        waits=waits,
        collectives=collectives,
        allocations=allocations_of(columns, first),
        devices=facts.devices,
        base_ns=facts.base_ns + ((columns.base_us or 0) + floor(first)) * 1000 + round(first % 1 * 1000),
        duration_total_us=float((start + duration).max()),
        rank=facts.rank,
        world_size=facts.world_size,
        dialect=_dialect(columns, bare=root.bare),
        vendor=_vendor(strings, name, category),
        notes=notes.all(),
    )


def _order(
    start: NDArray[np.float64],
    duration: NDArray[np.float64],
    category: NDArray[np.uint8],
    external_id: NDArray[np.int64],
    python_id: NDArray[np.int64],
) -> NDArray[np.intp]:
    """Sort by start, then longest first, then outermost first; operators of equal spans by their beginning.

    Profilers of 2021 write an event when it ends. Of two events with equal spans, the inner one therefore comes first
    in the file. The profiler's own numbers follow the order of beginning.
    """
    began = np.where(category == Category.PYTHON, python_id, 0)
    numbered = (category == Category.CPU_OP) | (category == Category.ANNOTATION)
    began = np.where(numbered, external_id, began)
    return np.lexsort((began, category, -duration, start))


def _processes(threads: tuple[HostThread, ...], used: NDArray[np.int32]) -> set[str]:
    return {threads[row].process for row in cast("list[int]", np.unique(used).tolist())}


def _dialect(columns: Columns, *, bare: bool) -> str:
    if "in process CPU functions" in columns.categories:
        return "autograd"
    if "Operator" in columns.categories:
        return "2020" if bare else "2021"
    return "current"


def _vendor(strings: tuple[str, ...], name: NDArray[np.int32], category: NDArray[np.uint8]) -> str:
    called = np.unique(name[(category == Category.RUNTIME) | (category == Category.DRIVER)])
    calls = [strings[row] for row in cast("list[int]", called.tolist())]
    if any(call.startswith("hip") for call in calls):
        return "amd"
    return "nvidia" if any(call.startswith("cu") for call in calls) else ""


_STEP = re.compile(r"ProfilerStep\D*(\d+)")


def steps_of(
    strings: Sequence[str],
    name: NDArray[np.int32],
    category: NDArray[np.uint8],
    start_us: NDArray[np.float64],
    duration_us: NDArray[np.float64],
) -> MarkedSteps:
    """The ``ProfilerStep#N`` spans of host threads (annotations or operators), in time order.

    Their copies on streams do not count: they end with the GPU's work and overlap each other.
    """
    numbers = {row: int(found.group(1)) for row, text in enumerate(strings) if (found := _STEP.match(text))}
    marked = np.isin(name, list(numbers)) if numbers else np.zeros(len(name), bool)
    on_host = np.isin(category, [int(Category.ANNOTATION), int(Category.CPU_OP)])
    rows = np.flatnonzero(marked & on_host)
    number = np.array([numbers[int(row)] for row in name[rows]], np.int64)
    # Nested profilers name the same step twice: the outer span counts.
    _, first = np.unique(number, return_index=True)
    kept = np.sort(first)
    rows = rows[kept]
    return MarkedSteps(
        number[kept], start_us[rows], start_us[rows] + duration_us[rows], rows.astype(np.int32)
    )


def waits_of(columns: Columns, now_at: NDArray[np.int32]) -> Waits:
    """Recorded waits. ``now_at`` is the trace row of each event, by its row in the file; -1 for none."""
    event = now_at[columns.joined("wait_event", np.int64)]
    kept = np.argsort(event, kind="stable")[int((event < 0).sum()) :]
    return Waits(
        event=event[kept],
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
        group=column("collective_group", np.int32),
        ranks=column("collective_ranks", np.int32),
    )


def allocations_of(columns: Columns, first: float) -> Allocations:
    """Allocations by time since the event at ``first``, both in µs."""
    time: NDArray[np.float64] = columns.joined("memory_time", np.float64) - first
    order = np.argsort(time, kind="stable")
    return Allocations(
        time_us=time[order],
        device=small(columns.joined("memory_device", np.int64))[order],
        allocated_bytes=columns.joined("memory_allocated", np.int64)[order],
    )
