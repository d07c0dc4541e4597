"""The events of a trace, a few thousand at a time, from a text too long for memory or damaged in places.

Most of a trace is well-formed; decoding many whole events at once is then fastest. The end of such a chunk is
guessed (after the last ``}`` that is followed by ``,`` and ``{``). Decoding verifies the guess: a chunk cut inside an
event is not a JSON list. A chunk that fails is retried shorter, and finally event by event; an event that is not
readable unchanged is mended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import msgspec

from skyline.trace.kineto.notes import NoteKind, Notes
from skyline.trace.kineto.window import TextWindow

NAN = float("nan")
NOTHING = msgspec.Raw(b"")


class Arguments(msgspec.Struct, gc=False, rename=None):
    """The fields of ``args`` that connect events to each other or describe their data."""

    correlation: int = 0
    external: int = msgspec.field(name="External id", default=0)
    external_2020: int = msgspec.field(name="external id", default=0)
    stream: int = -1
    device: int = -1
    sequence: int = msgspec.field(name="Sequence number", default=-1)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=0)
    size: int = msgspec.field(name="bytes", default=0)
    occupancy: float = msgspec.field(name="est. achieved occupancy %", default=-1.0)
    python_id: int = msgspec.field(name="Python id", default=0)
    python_module: int = msgspec.field(name="Python module id", default=-1)
    stack: str = msgspec.field(name="Call stack", default="")
    module_path: str = msgspec.field(name="Module Hierarchy", default="")
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    shapes_2020: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)
    types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    wait_stream: int = msgspec.field(name="wait_on_stream", default=-1)
    wait_recorded_by: int = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=0)
    collective: str = msgspec.field(name="Collective name", default="")
    element_type: str = msgspec.field(name="dtype", default="")
    elements_in: int = msgspec.field(name="In msg nelems", default=0)
    group: str | int = msgspec.field(name="Process Group Name", default="")
    group_2023: str | int = msgspec.field(name="Process Group ID", default="")
    ranks: msgspec.Raw = msgspec.field(name="Process Group Ranks", default=NOTHING)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=0)
    memory_allocated: int = msgspec.field(name="Total Allocated", default=-1)
    thread_name: str | int = msgspec.field(name="name", default="")


class Event(msgspec.Struct, gc=False):
    """An event. Times are in µs; ``ts`` is NaN if missing."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = NAN
    dur: float = NAN
    args: Arguments | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An event with its time as a decimal: µs since 1970 with three decimals exceed the precision of a float."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal = Decimal("NaN")
    dur: float = NAN
    args: Arguments | None = None


_LONGEST_STRETCH = 2 << 20
"""Longest chunk in bytes. The events of a longer one do not fit into the processor's caches and take 1.5
times as long."""
_SEEN_FOR_TIMES = 8 << 20
_SHORTEST_STRETCH = 32 << 10
_LONGEST_EVENT = 2 << 20
_MOST_DAMAGE = 500
_DAMAGED = "Damaged stretches of the list of events"
_NOT_READ = "Too much damage: the rest of the file was not read"
_BETWEEN_EVENTS = b" \t\r\n,"
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_START_OF_EVENT = re.compile(rb'\{\s*"(?:ph|cat|name|pid|tid|ts)"\s*:')
_TIME_BEYOND_FLOAT = re.compile(rb'"ts"\s*:\s*\d{14,}\.\d*[1-9]')

Stretch = list[Event] | list[ExactEvent]


def stretches(window: TextWindow, notes: Notes) -> Iterator[Stretch]:
    """Events from a window positioned behind the ``[`` of a list, up to and including the ``]``."""
    window.fill(_SEEN_FOR_TIMES)
    exact = _TIME_BEYOND_FLOAT.search(window.data, window.at, window.at + _SEEN_FOR_TIMES) is not None
    # Not strict: early versions wrote numbers as strings.
    if exact:
        decoder = msgspec.json.Decoder(list[ExactEvent], strict=False)
    else:
        decoder = msgspec.json.Decoder(list[Event], strict=False)
    size = _LONGEST_STRETCH
    while True:
        window.skip(_BETWEEN_EVENTS)
        window.fill(size)
        cut, after = _last_boundary(window.data, window.at, window.at + size)
        if cut:
            try:
                found = decoder.decode(b"".join((b"[", memoryview(window.data)[window.at : cut], b"]")))
            except UNREADABLE:
                if size > _SHORTEST_STRETCH:
                    size = max(_SHORTEST_STRETCH, size // 8)
                    continue
            else:
                window.at = after
                size = min(_LONGEST_STRETCH, size * 2)
                yield found
                continue
        few, ended = _one_by_one(window, notes)
        if few:
            yield few
        if ended:
            return


def _last_boundary(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """The likely end of the last whole event before ``stop``, and the start of the next; (0, 0) if there is none."""
    brace = data.rfind(b"}", start, stop)
    while brace >= 0:
        if found := _BETWEEN.match(data, brace):
            return brace + 1, found.end()
        brace = data.rfind(b"}", start, brace)
    return 0, 0


def _one_by_one(window: TextWindow, notes: Notes) -> tuple[list[Event], bool]:
    """A chunk of events, decoded one by one, and whether the list has ended."""
    found: list[Event] = []
    passed = 0
    while passed < _SHORTEST_STRETCH:
        following = window.skip(_BETWEEN_EVENTS)
        if following == b"]":
            window.at += 1
            return found, True
        if following == b"}":
            if notes.counted(NoteKind.LEFT_OUT, _DAMAGED) >= _MOST_DAMAGE:
                notes.say(NoteKind.CUT_OFF, _NOT_READ)
                return found, True
            window.at += 1
            notes.count(NoteKind.LEFT_OUT, _DAMAGED)
            continue
        text = window.value(_LONGEST_EVENT) if following else b""
        if text is None:
            if notes.counted(NoteKind.LEFT_OUT, _DAMAGED) >= _MOST_DAMAGE:
                # Detecting an event without an end takes long.
                notes.say(NoteKind.CUT_OFF, _NOT_READ)
                return found, True
            if not _skip_damage(window):
                notes.say(NoteKind.CUT_OFF, "The file ends in the middle of an event")
                return found, True
            notes.count(NoteKind.LEFT_OUT, _DAMAGED)
            continue
        if not text:
            notes.say(NoteKind.CUT_OFF, "The file ends before its list of events does")
            return found, True
        passed += len(text)
        event = salvaged(text)
        if event is not None:
            found.append(event)
            continue
        notes.count(NoteKind.LEFT_OUT, "Unreadable entries of the list of events")
        # A surplus quote merges several entries; whole entries may be inside.
        if inner := _START_OF_EVENT.search(text, 1):
            window.at += inner.start() - len(text)
    return found, False


def _skip_damage(window: TextWindow) -> bool:
    """Skip an event without an end, up to the likely start of the next; False if there is none."""
    window.at += 1
    while True:
        if found := _START_OF_EVENT.search(window.data, window.at):
            window.at = found.start()
            return True
        window.at = max(window.at, len(window.data) - 64)
        if not window.more():
            return False


_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# Older profilers print a bandwidth of "inf" and an occupancy of "-nan", which JSON does not allow.
_NOT_A_NUMBER = re.compile(_STRING + rb"|([-+]?\b(?:nan|inf(?:inity)?)\b(?:\([a-z]*\))?)", re.IGNORECASE)
_BAD_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_CONTROL = re.compile(rb"[\x00-\x1f]")

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""The exceptions of decoding a text."""


def salvaged(text: bytes) -> Event | None:
    """The event in ``text``, with fields of a wrong type left at their defaults; None if it is not an object."""
    try:
        return msgspec.json.decode(text, type=Event, strict=False)
    except UNREADABLE:
        pass
    for attempt in (text, _mended(text)):
        try:
            found = cast("object", json.loads(attempt))
        except UNREADABLE:
            continue
        return _event(cast("dict[str, Any]", found)) if isinstance(found, dict) else None
    return None


def _mended(text: bytes) -> bytes:
    """The text with common errors of JSON writers repaired: bare NaN, lone backslashes, raw control bytes."""
    text = text.decode("utf-8", "replace").encode()
    text = _CONTROL.sub(b" ", text)
    text = _BAD_ESCAPE.sub(lambda found: found.group() if found.group(1) else rb"\\", text)
    return _NOT_A_NUMBER.sub(lambda found: b"null" if found.group(1) else found.group(), text)


def _event(fields: dict[str, Any]) -> Event:
    arguments = fields.get("args")
    return Event(
        ph=_text(fields.get("ph")),
        cat=_text(fields.get("cat")),
        name=_text(fields.get("name")),
        pid=_label(fields.get("pid")),
        tid=_label(fields.get("tid")),
        ts=_number(fields.get("ts")),
        dur=_number(fields.get("dur")),
        args=_arguments(cast("dict[str, Any]", arguments)) if isinstance(arguments, dict) else None,
    )


def _arguments(given: dict[str, Any]) -> Arguments:
    usable: dict[str, Any] = {}
    for described in msgspec.structs.fields(Arguments):
        value = given.get(described.encode_name)
        if value is None:
            continue
        if described.type is msgspec.Raw:
            usable[described.name] = msgspec.Raw(msgspec.json.encode(value))
            continue
        try:
            usable[described.name] = msgspec.convert(value, described.type, strict=False)
        except (msgspec.ValidationError, OverflowError, RecursionError):
            continue
    return Arguments(**usable)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _label(value: object) -> int | str:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (int, str)) else ""


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float, str)) else NAN
    except (ValueError, OverflowError):
        return NAN
