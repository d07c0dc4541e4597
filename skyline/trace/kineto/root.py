"""The data around the list of events: the few facts that are kept, from anywhere in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.event_stream import UNREADABLE, Stretch, stretches
from skyline.trace.kineto.notes import NoteKind, Notes
from skyline.trace.kineto.profiler_trace import RecordedDevice
from skyline.trace.kineto.window import TextWindow


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """The facts that are kept from a file's head and tail."""

    devices: tuple[RecordedDevice, ...]
    rank: int
    world_size: int
    base_ns: int


def facts_of(given: dict[str, Any]) -> TraceFacts:
    """Facts from the decoded values; any may be missing, of a wrong type, or JSON inside a string."""
    job = _mapping(given.get("distributedInfo"))
    return TraceFacts(
        devices=_devices(given.get("deviceProperties")),
        rank=_whole(job.get("rank"), -1),
        world_size=_whole(job.get("world_size"), 0),
        base_ns=_whole(given.get("baseTimeNanoseconds"), 0),
    )


def _devices(given: object) -> tuple[RecordedDevice, ...]:
    listed = _unpacked(given)
    if not isinstance(listed, list):
        return ()
    found: list[RecordedDevice] = []
    for one in cast("list[object]", listed):
        properties = _mapping(one)
        if not properties:
            continue
        name = properties.get("name")
        found.append(
            RecordedDevice(
                index=_whole(properties.get("id"), len(found)),
                name=name if isinstance(name, str) else "",
                memory_bytes=_whole(properties.get("totalGlobalMem"), 0),
                compute_major=_whole(properties.get("computeMajor"), 0),
                compute_minor=_whole(properties.get("computeMinor"), 0),
                multiprocessors=_whole(properties.get("numSms"), 0),
            )
        )
    return tuple(found)


def _unpacked(given: object) -> object:
    if isinstance(given, str):
        try:
            return cast("object", msgspec.json.decode(given))
        except (msgspec.DecodeError, RecursionError):
            return None
    return given


def _mapping(given: object) -> dict[str, Any]:
    unpacked = _unpacked(given)
    return cast("dict[str, Any]", unpacked) if isinstance(unpacked, dict) else {}


def _whole(given: object, otherwise: int) -> int:
    if isinstance(given, str):
        given = int(given) if given.lstrip("-").isdecimal() and len(given) < 20 else None
    if isinstance(given, float) and given.is_integer() and abs(given) < 2**63:
        given = int(given)
    return (
        given if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 2**63 else otherwise
    )


# Nothing else of a file's head or tail is kept: it may contain names of people, machines and jobs.
KEPT = frozenset({"deviceProperties", "distributedInfo", "baseTimeNanoseconds", "schemaVersion"})

_LONGEST_FACT = 64 << 20
_EVENTS = re.compile(rb'traceEvents"\s*:\s*\[')
_PYTORCH = "Name a file that export_chrome_trace or tensorboard_trace_handler of torch.profiler wrote."


class Root:
    """The outermost value of a file: iterate over ``stretches()`` to its end; ``facts`` is complete afterwards."""

    def __init__(self, window: TextWindow, path: Path, notes: Notes) -> None:
        self._window = window
        self._path = path
        self._notes = notes
        self._keys: set[str] = set()
        self.facts: dict[str, Any] = {}
        self.bare = False
        """True if the file is a list of events without a surrounding object, as in 2020."""

    def stretches(self) -> Iterator[Stretch]:
        """All events of the file. Raises UsageError for JSON of another kind and for other content."""
        first = self._window.skip(b"\xef\xbb\xbf \t\r\n")
        if first == b"[":
            self.bare = True
            self._window.at += 1
            yield from stretches(self._window, self._notes)
            return
        if first != b"{":
            raise UsageError(f"{self._path} is not JSON: not a profiler trace", hint=_PYTORCH)
        self._window.at += 1
        found = False
        while self._walk_to_events():
            found = True
            yield from stretches(self._window, self._notes)
        if not found:
            raise self._refusal()

    def _walk_to_events(self) -> bool:
        """Read facts up to and including the ``[`` of the events; False at the end of the file."""
        window = self._window
        while True:
            following = window.skip(b" \t\r\n,")
            if following in (b"", b"}"):
                if not following:
                    self._notes.say(NoteKind.CUT_OFF, "The file ends before its outermost brace closes")
                return False
            key = window.value(_LONGEST_FACT) if following == b'"' else None
            if key is None or window.skip() != b":":
                return self._search_for_events()
            window.at += 1
            name = key[1:-1].decode("utf-8", "replace")
            self._keys.add(name)
            if window.skip() == b"[" and name == "traceEvents":
                window.at += 1
                return True
            value = window.value(_LONGEST_FACT)
            if value is None:
                return self._search_for_events()
            if _EVENTS.search(value):
                # With a surplus or missing quote or bracket, a fact includes the events.
                window.at -= len(value)
                return self._search_for_events()
            if name in KEPT:
                try:
                    self.facts[name] = msgspec.json.decode(value)
                except UNREADABLE:
                    self._notes.say(NoteKind.LEFT_OUT, f"The value of {name} in the file is unreadable")

    def _search_for_events(self) -> bool:
        """Continue after a damaged head at the start of the events."""
        window = self._window
        while True:
            if found := _EVENTS.search(window.data, window.at):
                window.at = found.end()
                self._notes.say(NoteKind.REPAIRED, "The part before or after the events is damaged")
                return True
            window.at = max(window.at, len(window.data) - 64)
            if not window.more():
                self._notes.say(NoteKind.CUT_OFF, "The parts around the events are damaged or cut off")
                return False

    def _refusal(self) -> UsageError:
        if {"nodes", "schema"} <= self._keys:
            return UsageError(
                f"{self._path} is a PyTorch execution trace: it holds no times",
                hint="Name the profiler trace of the same run; the execution trace can be given with it.",
            )
        if "schema" in self._keys:
            return UsageError(
                f"{self._path} holds no events: it is a profile, not a profiler trace",
                hint="A profile of Skyline's own is loaded by skyline.graph.load.",
            )
        return UsageError(f"{self._path} holds no traceEvents: not a profiler trace", hint=_PYTORCH)
