"""Columns that grow chunk by chunk, so that the events themselves need not stay in memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import compress
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.interval import median
from skyline.trace.kineto.category import BOOKKEEPING, NAMED_RANGES, Category, category_of
from skyline.trace.kineto.event_stream import NOTHING, Arguments, Event, ExactEvent, Stretch
from skyline.trace.kineto.notes import NoteKind, Notes

_GREATEST = 2**63 - 1


class Strings:
    """Texts by number; number 0 is the empty text."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}
        self._json: dict[bytes, int] = {b"": 0}

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The number of each text; new texts get the next number."""
        if not any(texts):
            return np.zeros(len(texts), np.int32)
        known = self._number
        for text in set(texts).difference(known):
            known[text] = len(known)
        return np.fromiter(map(known.__getitem__, texts), np.int32, len(texts))

    def numbers_of_json(self, values: Sequence[msgspec.Raw]) -> NDArray[np.int32]:
        """The number of each JSON value, as text."""
        if values.count(NOTHING) == len(values):
            return np.zeros(len(values), np.int32)
        known = self._json
        found: list[int] = []
        for value in values:
            if value is NOTHING:
                found.append(0)
                continue
            text = bytes(value)
            number = known.get(text)
            if number is None:
                plain = text.decode("utf-8", "replace").strip('"')
                number = known[text] = self._number.setdefault(plain, len(self._number))
            found.append(number)
        return np.array(found, np.int32)

    def all(self) -> tuple[str, ...]:
        """Every text, by number."""
        return tuple(self._number)


def integers(values: Sequence[int]) -> NDArray[np.int64]:
    """Convert to 64-bit integers; larger values become 0."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([value if -_GREATEST <= value <= _GREATEST else 0 for value in values], np.int64)


def _plain(get: Callable[[Arguments], int], arguments: Sequence[Arguments]) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(get, arguments), np.int64, len(arguments))
    except OverflowError:
        return integers(list(map(get, arguments)))


def chosen(where: NDArray[np.bool_]) -> list[int]:
    """The rows at which a condition holds."""
    return np.flatnonzero(where).tolist()


def small(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Convert to 32-bit integers. Larger ones (handles instead of counted ids) get new numbers from 2^30 on."""
    strange = (values > 2**30 - 1) | (values < -(2**30))
    if strange.any():
        _, numbers = np.unique(values[strange], return_inverse=True)
        values = np.array(values)
        values[strange] = numbers + 2**30
    return values.astype(np.int32)


_DAY_US = 86_400e6
_NONE = Arguments()
_ENOUGH_FOR_A_BASE = 500
_UNKNOWN = -1
_IN_PROCESS = "in process "
_BOOKKEEPING = -2

# Columns that hold an argument unchanged.
_PLAIN = {
    "correlation": attrgetter("correlation"),
    "device": attrgetter("device"),
    "stream": attrgetter("stream"),
    "sequence": attrgetter("sequence"),
    "forward_thread": attrgetter("forward_thread"),
    "size_bytes": attrgetter("size"),
    "python_id": attrgetter("python_id"),
    "python_module": attrgetter("python_module"),
}


class Columns:
    """Collects events; ``joined`` returns a column of all of them, in file order."""

    def __init__(self, notes: Notes) -> None:
        self.strings = Strings()
        self.places: dict[tuple[int | str, int | str], int] = {}
        """Numbers of the (process, thread) pairs in the file; on a GPU these are device and stream."""
        self.thread_names: dict[tuple[str, str], str] = {}
        self.categories: dict[str, int] = {}
        """Categories as written in the file, with their kind."""
        self.base_us: int | None = None
        """Times are stored relative to this, so that they fit into a float."""
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._count = 0
        self._notes = notes
        self._unknown: Counter[str] = Counter()

    def joined(self, name: str, kind: type[np.generic]) -> NDArray[Any]:
        """A whole column; its chunks are freed."""
        parts = self._parts.pop(name, [])
        return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, kind)

    def take(self, stretch: Stretch) -> None:
        """Add some events. Unusable events, and relevant events that are not work, are noted."""
        spans: list[Event | ExactEvent] = [event for event in stretch if event.ph == "X"]
        names = [event.name for event in spans]
        kinds = self._kinds(spans, names)
        start = self._times(spans)
        duration = np.array([event.dur for event in spans], np.float64)
        timed = np.isfinite(start) & np.isfinite(duration)
        sane = timed & (duration >= 0) & (duration <= _DAY_US)
        wanted = kinds >= 0
        for what, which in (
            ("Events without a start or a duration", wanted & ~timed),
            ("Events with a negative duration or one of over a day", wanted & timed & ~sane),
        ):
            self._notes.count(NoteKind.LEFT_OUT, what, int(which.sum()))
        usable = wanted & sane
        if usable.any():
            kinds = kinds[usable]
            self._add(category=kinds.astype(np.uint8), start_us=start[usable], duration_us=duration[usable])
            kept = usable.tolist()
            self._take_spans(list(compress(spans, kept)), list(compress(names, kept)), kinds)
        if len(spans) < len(stretch):
            self._take_others([event for event in stretch if event.ph != "X" and event.args is not None])

    def _take_others(self, events: Sequence[Event | ExactEvent]) -> None:
        """Add names of threads, and allocations."""
        for event in events:
            if event.ph == "M" and event.name == "thread_name" and event.args is not None:
                self.thread_names[str(event.pid), str(event.tid)] = str(event.args.thread_name)
        if allocations := [event for event in events if event.name == "[memory]"]:
            self._take_allocations(allocations)

    def unknown_categories(self) -> list[tuple[str, int]]:
        """Unknown categories, with the number of their events."""
        return sorted(self._unknown.items())

    def _add(self, **columns: NDArray[Any]) -> None:
        for name, values in columns.items():
            self._parts.setdefault(name, []).append(values)

    def _take_spans(
        self, spans: Sequence[Event | ExactEvent], names: Sequence[str], kinds: NDArray[np.int16]
    ) -> None:
        arguments = [event.args or _NONE for event in spans]
        self._add(
            place=self._places(spans),
            name=self.strings.numbers(names),
            stack=self.strings.numbers([given.stack for given in arguments]),
            module_path=self.strings.numbers([given.module_path for given in arguments]),
            shapes=self.strings.numbers_of_json([given.shapes or given.shapes_2020 for given in arguments]),
            types=self.strings.numbers_of_json([given.types for given in arguments]),
            external_id=integers([given.external or given.external_2020 for given in arguments]),
            occupancy=np.array([given.occupancy for given in arguments], np.float32),
            **{name: _plain(get, arguments) for name, get in _PLAIN.items()},
        )
        self._take_waits(arguments, kinds)
        self._take_collectives(arguments)
        self._count += len(spans)

    def _places(self, spans: Sequence[Event | ExactEvent]) -> NDArray[np.int32]:
        """The number of the process and thread of each event."""
        known = self.places
        pairs = [(event.pid, event.tid) for event in spans]
        for pair in dict.fromkeys(pairs):
            known.setdefault(pair, len(known))
        return np.fromiter(map(known.__getitem__, pairs), np.int32, len(pairs))

    def _take_waits(self, arguments: Sequence[Arguments], kinds: NDArray[np.int16]) -> None:
        rows = chosen(kinds == int(Category.SYNC))
        given = [arguments[row] for row in rows]
        self._add(
            wait_event=np.array(rows, np.int64) + self._count,
            wait_stream=integers([one.wait_stream for one in given]),
            wait_recorded_by=integers([one.wait_recorded_by for one in given]),
        )

    def _take_collectives(self, arguments: Sequence[Arguments]) -> None:
        rows = [row for row, name in enumerate(map(attrgetter("collective"), arguments)) if name]
        given = [arguments[row] for row in rows]
        self._add(
            collective_event=np.array(rows, np.int64) + self._count,
            collective_name=self.strings.numbers([one.collective for one in given]),
            collective_type=self.strings.numbers([one.element_type for one in given]),
            collective_in=integers([one.elements_in for one in given]),
            collective_group=self.strings.numbers(
                [str(one.group if one.group != "" else one.group_2023) for one in given]
            ),
            collective_ranks=self.strings.numbers_of_json([one.ranks for one in given]),
        )

    def _take_allocations(self, instants: Sequence[Event | ExactEvent]) -> None:
        time = self._times(instants)
        rows = chosen(np.isfinite(time))
        given = [instants[row].args or _NONE for row in rows]
        self._add(
            memory_time=time[rows],
            memory_device=integers([one.memory_device if one.memory_device_type else -1 for one in given]),
            memory_allocated=integers([one.memory_allocated for one in given]),
        )

    def _kinds(self, events: Sequence[Event | ExactEvent], names: Sequence[str]) -> NDArray[np.int16]:
        """The category of each event; negative for those that are left out."""
        written = [event.cat for event in events]
        if not all(written):
            written = [event.cat or f"{_IN_PROCESS}{event.pid}" for event in events]
        known = self.categories
        for text in set(written).difference(known):
            known[text] = _kind(text)
        kinds = np.fromiter(map(known.__getitem__, written), np.int16, len(events))
        ranges = {name for name in set(names) if name.startswith(NAMED_RANGES)}
        if ranges:
            in_range = np.fromiter(map(ranges.__contains__, names), np.bool_, len(names))
            kinds[in_range & (kinds == Category.CPU_OP)] = Category.ANNOTATION
        for row in chosen(kinds == _UNKNOWN):
            given = events[row].args or _NONE
            if given.stream >= 0 and given.correlation > 0:
                kinds[row] = Category.KERNEL  # a kernel of an unknown accelerator
            else:
                self._unknown[events[row].cat] += 1
        return kinds

    def _times(self, events: Sequence[Event | ExactEvent]) -> NDArray[np.float64]:
        if self.base_us is None:
            few = events[:_ENOUGH_FOR_A_BASE]
            times = [time for event in few if math.isfinite(time := _difference(event.ts, 0))]
            if not times:
                return np.zeros(len(events)) + np.nan
            # Not the first event: if it is far off, the others would lose their last digits.
            self.base_us = int(median(times))
        base = self.base_us
        if not events or isinstance(events[0], Event):
            return np.array([event.ts for event in events], np.float64) - float(base)
        # Exact times are subtracted before the conversion to float.
        exactly, exact = Decimal(base), cast("Sequence[ExactEvent]", events)
        try:
            return np.array([float(event.ts - exactly) for event in exact], np.float64)
        except (ArithmeticError, ValueError):
            return np.array([_difference(event.ts, base) for event in events], np.float64)


def _difference(time: float | Decimal, base: int) -> float:
    try:
        return float(time - base)
    except (ArithmeticError, ValueError):
        return math.nan


def _kind(written: str) -> int:
    """The kind of a category as written, or of a process where there was none."""
    if written.lower() in BOOKKEEPING:
        return _BOOKKEEPING
    place = written.removeprefix(_IN_PROCESS)
    known = category_of("", place) if place != written else category_of(written, "")
    return _UNKNOWN if known is None else int(known)
