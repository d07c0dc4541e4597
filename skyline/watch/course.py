"""The course of one watched process: its latest records, as rules read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import field
from itertools import islice
from typing import TypeVar

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import MachineLoad
from skyline.trace.record import CodeLine
from skyline.watch.mllog import LoggedTraining, read_entry
from skyline.watch.records import (
    Line,
    Output,
    ParameterRow,
    Parameters,
    Record,
    Sample,
    Save,
    Start,
    Validation,
    Window,
)

_WINDOWS = 2000
_OTHERS = 300
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """Memory that the process uses, and the free share of all memory; ``where`` is a kind of device or the host."""

    iteration: int
    used_bytes: int
    free_bytes: int | None
    total_bytes: int | None
    where: str


@dataclass(frozen=True, slots=True)
class LoadReading:
    """The load of the machine from the previous reading until ``iteration``."""

    iteration: int
    load: MachineLoad


@dataclass(slots=True)
class Course:
    """Grows by ``add``. ``peers`` are the courses of all processes of the run, including this one."""

    peers: list[Course] = field(default_factory=list["Course"])
    start: Start | None = None
    windows: deque[Window] = field(default_factory=lambda: deque[Window](maxlen=_WINDOWS))
    samples: deque[Sample] = field(default_factory=lambda: deque[Sample](maxlen=_OTHERS))
    validations: deque[Validation] = field(default_factory=lambda: deque[Validation](maxlen=_OTHERS))
    saves: deque[Save] = field(default_factory=lambda: deque[Save](maxlen=_OTHERS))
    memory: deque[MemoryLevel] = field(default_factory=lambda: deque[MemoryLevel](maxlen=_WINDOWS))
    loads: deque[LoadReading] = field(default_factory=lambda: deque[LoadReading](maxlen=_WINDOWS))
    lines: dict[str, CodeLine] = field(default_factory=dict[str, CodeLine])
    parameters: list[ParameterRow] = field(default_factory=list[ParameterRow])
    first_losses: list[float] = field(default_factory=list[float])
    logged: LoggedTraining = field(default_factory=LoggedTraining)
    """The progress from the training's own log, if it writes one."""

    def add(self, record: Record) -> None:
        """Adds a record."""
        match record:
            case Start():
                self.start = record
            case Line():
                self.lines[record.site] = CodeLine(record.file, record.line, record.function)
            case Parameters():
                self.parameters += record.rows
            case Window():
                self._add_window(record)
            case Sample():
                self.samples.append(record)
            case Validation():
                self.validations.append(record)
            case Save():
                self.saves.append(record)
            case Output():
                entry = read_entry(record.text)
                if entry is not None:
                    self.logged = self.logged.after(entry)
            case _:
                pass

    def add_memory(self, level: MemoryLevel) -> None:
        """Adds a reading of memory."""
        self.memory.append(level)

    def add_load(self, load: MachineLoad) -> None:
        """Adds a reading of the machine's load."""
        self.loads.append(LoadReading(self.iteration, load))

    def loads_between(self, first: int, last: int) -> list[MachineLoad]:
        """The loads that were read in these iterations; without any, the last earlier one."""
        known = [one for one in self.loads if one.iteration <= last]
        return [one.load for one in known if one.iteration >= first] or [one.load for one in known[-1:]]

    @property
    def rank(self) -> int:
        """Its rank among the processes."""
        return 0 if self.start is None else self.start.rank

    @property
    def elapsed_s(self) -> float:
        """Time since the first iteration."""
        return self.windows[-1].at_s if self.windows else 0.0

    @property
    def iteration(self) -> int:
        """The last known iteration."""
        return self.windows[-1].iteration if self.windows else 0

    def line(self, *sites: str) -> CodeLine | None:
        """The line of the first known of these sites."""
        return next((self.lines[site] for site in sites if site in self.lines), None)

    def parameter(self, number: int) -> ParameterRow:
        """A parameter by its number."""
        if 0 <= number < len(self.parameters):
            return self.parameters[number]
        return ParameterRow("an unnamed layer")

    def latest_windows(self, count: int) -> list[Window]:
        """The last ``count`` windows, oldest first; fewer only at the start."""
        return latest(self.windows, count)

    def latest_samples(self, count: int) -> list[Sample]:
        """The last ``count`` samples, oldest first."""
        return latest(self.samples, count)

    def _add_window(self, window: Window) -> None:
        self.windows.append(window)
        if window.device:
            used, free, total = window.allocated_bytes, window.free_bytes, window.total_bytes
            self.add_memory(MemoryLevel(window.iteration, used, free, total, window.device))
        if window.loss is not None and len(self.first_losses) < _FIRST_LOSSES:
            self.first_losses.append(window.loss)


_FIRST_LOSSES = 5


def latest(kept: deque[_Kept], count: int) -> list[_Kept]:
    """The last ``count`` entries, oldest first."""
    return list(islice(reversed(kept), count))[::-1]


def mean(values: Iterable[float]) -> float:
    """The mean; NaN without values."""
    found = list(values)
    return sum(found) / len(found) if found else float("nan")
