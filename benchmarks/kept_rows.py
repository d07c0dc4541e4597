"""Measurements of a script's changes, stored in a folder so that a long measurement can be stopped and continued."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from skyline.trace.profile import Profile
from skyline.trace.store import SUFFIX, load, save


class Measured(Protocol):
    """A row that states whether it counts."""

    @property
    def valid(self) -> bool:
        """True if the null, the script over itself, was one within the tolerance during the measurement."""
        ...


_Row = TypeVar("_Row", bound=Measured)
_Change = TypeVar("_Change")


@dataclass(slots=True)
class Deadline:
    """A time limit in s. No batch starts after it, or so late that it would probably end after it."""

    within_s: float = math.inf
    _began_s: float = field(default_factory=time.monotonic)
    _longest_s: float = 0.0

    @property
    def passed(self) -> bool:
        """True if a batch as long as the longest one so far would end too late."""
        return time.monotonic() - self._began_s + self._longest_s > self.within_s

    def took(self, seconds: float) -> None:
        """Record the duration of a batch."""
        self._longest_s = max(self._longest_s, seconds)


class KeptRows(Generic[_Row]):
    """The profile of one script, and its rows by the words of each change. None for a change that did not run.

    Without a folder nothing outlives the process. Rows whose null was off do not count as measured and are always
    measured again.
    """

    def __init__(self, folder: Path | None, name: str, kind: type[_Row]) -> None:
        self._folder = folder / name.replace("/", "-") if folder is not None else None
        self._kind = kind
        self._rows: dict[str, _Row | None] = {}
        path = self._path
        if path is not None and path.exists():
            self._rows = msgspec.json.decode(path.read_bytes(), type=dict[str, kind | None])

    def profile(self, taken: Callable[[], Profile]) -> Profile:
        """The profile that all predictions start from. It is made once, even if the rows are measured later."""
        if self._folder is None:
            return taken()
        found = sorted(self._folder.glob(f"*{SUFFIX}"))
        if found:
            return load(found[0])
        profile = taken()
        save(profile, self._folder)
        return profile

    def measured(self, words: str) -> bool:
        """True if the change was measured with a valid null, or was found not to run."""
        if words not in self._rows:
            return False
        row = self._rows[words]
        return row is None or row.valid

    def put(self, rows: dict[str, _Row | None]) -> None:
        """Store the rows of a batch, also in the folder if there is one."""
        self._rows |= rows
        path = self._path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(self._rows))

    def among(self, words: Sequence[str]) -> list[_Row]:
        """The rows of these changes, in this order."""
        return [row for one in words if (row := self._rows.get(one)) is not None]

    @property
    def _path(self) -> Path | None:
        return self._folder / "rows.json" if self._folder is not None else None


def batches(changes: Sequence[_Change], at_once: int) -> Iterator[Sequence[_Change]]:
    """The changes in batches of about equal size, at most ``at_once`` each; 0: all at once."""
    count = math.ceil(len(changes) / at_once) if at_once else min(1, len(changes))
    for number in range(count):
        yield changes[number * len(changes) // count : (number + 1) * len(changes) // count]
