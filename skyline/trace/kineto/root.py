"""The data around the list of events: the few facts that are kept, from anywhere in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from skyline.errors import UsageError
from skyline.trace.kineto.event_stream import Stretch, stretches
from skyline.trace.kineto.notes import NoteKind, Notes
from skyline.trace.kineto.salvage import UNREADABLE
from skyline.trace.kineto.window import TextWindow

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
