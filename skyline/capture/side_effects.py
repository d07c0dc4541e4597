"""Reads the log of the script's effects outside its process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from skyline.bounded_read import read_start
from skyline.capture.redactor import Redactor
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Protection, SideEffect
from skyline.trace.record import CodeLine

_LOG_NAME = "effects.jsonl"
_PROTECTION_NAME = "protection.json"
_LAST_WORDS_NAME = "last-words"
_MOST_KEPT = 500
_LOG_BYTES = 16 << 20
"""Upper limit of the log: the sandbox logs at most 2,000 targets per process, a few times each."""
_SMALL_BYTES = 64 << 10
_Row = TypeVar("_Row")
UNREADABLE = (msgspec.MsgspecError, RecursionError)
"""Errors for a row that was cut off, or that the script itself wrote."""


@dataclass(frozen=True, slots=True)
class _EffectRow:
    pid: int
    kind: str
    target: str
    outcome: str
    count: int = 1
    line: CodeLine | None = None


def read_side_effects(
    scratch: Path, redactor: Redactor, kept: Collection[str] = ()
) -> tuple[SideEffect, ...]:
    """The distinct effects so far, in the order of their first occurrence.

    ``kept`` are the paths of downloads that were moved to where the script wanted them.
    """
    counts: dict[tuple[str, str, str], dict[int, int]] = {}
    first: dict[tuple[str, str, str], CodeLine | None] = {}
    for row in logged(scratch / _LOG_NAME, _EffectRow):
        outcome = "allowed" if row.kind == "download" and row.target in kept else row.outcome
        key = (row.kind, redactor.scrub(row.target), outcome)
        by_process = counts.setdefault(key, {})
        by_process[row.pid] = max(row.count, by_process.get(row.pid, 0))
        first.setdefault(key, row.line)
    return tuple(
        SideEffect(kind, target, outcome, sum(by_process.values()), first[kind, target, outcome])
        for (kind, target, outcome), by_process in list(counts.items())[:_MOST_KEPT]
    )


def logged(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    """The rows of a log of the run; none if there is no log yet."""
    try:
        lines = read_start(path, _LOG_BYTES).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=kind)
        except UNREADABLE:
            continue  # a process was ended while it wrote the row


def read_protection(scratch: Path) -> Protection | None:
    """The protection of the user's files from the run; None if the run has not reported it."""
    try:
        return msgspec.json.decode(read_start(scratch / _PROTECTION_NAME, _SMALL_BYTES), type=Protection)
    except (OSError, *UNREADABLE):
        return None


def last_words(scratch: Path) -> str:
    """The reason why the run had to end itself; empty if it could not write one."""
    try:
        return read_start(scratch / _LAST_WORDS_NAME, _SMALL_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
