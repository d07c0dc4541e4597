"""Evaluates the rules over the records of a run, and acts on alerts and notes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from skyline.entry_points import said
from skyline.report.place import place
from skyline.trace.facts import MachineLoad
from skyline.watch.actions import Actions
from skyline.watch.course import Course, MemoryLevel
from skyline.watch.diary import Diary
from skyline.watch.mllog import LoggedTraining
from skyline.watch.records import (
    Checkpoint,
    Failed,
    Moment,
    Output,
    Record,
    Sample,
    Save,
    Start,
    Validation,
    Window,
)
from skyline.watch.rule import Alert, Note, WatchRule

_QUIET_S = 60.0
"""The time in s within which a rule that holds again is not reported again; the same for a note."""
_OVER_AFTER = 10
"""The number of successive checks without a result after which an alert is over."""
_MEMORY_EVERY_S = 1.0
_LOGGED_EVERY_S = 5.0
_Noted = tuple[float, LoggedTraining]

Say = Callable[[str], None]
Command = Callable[[int, dict[str, object]], None]
Pause = Callable[[Sequence[int]], None]
ReadLoad = Callable[[], MachineLoad | None]


@dataclass(slots=True)
class _State:
    """An alert of one process; ``clear`` counts the checks without a result since it held."""

    said_at: float
    clear: int = 0
    holds: bool = True


@dataclass(slots=True)
class Watcher:
    """Receives the records of all processes of a run. ``command`` passes commands to a process, ``pause`` stops some.

    ``load`` gives the load of the machine since its last call, None if there is nothing new. A rule that
    raises an exception is left out from then on; the others continue.
    """

    rules: dict[str, WatchRule]
    diary: Diary
    actions: Actions
    say: Say
    command: Command
    pause: Pause = lambda _: None
    load: ReadLoad = lambda: None
    courses: dict[int, Course] = field(default_factory=dict[int, Course])
    alerts: int = 0
    _peers: list[Course] = field(default_factory=list[Course])
    _states: dict[tuple[int, str], _State] = field(default_factory=dict[tuple[int, str], _State])
    _noted_at: dict[str, float] = field(default_factory=dict[str, float])
    _stopped: bool = False
    _memory_at: float = 0.0
    _logged: dict[int, _Noted] = field(default_factory=dict[int, _Noted])

    def hear(self, process: int, record: Record) -> None:
        """Adds a record of the process with this number, and checks the rules."""
        course = self.courses.get(process)
        if course is None:
            course = self.courses[process] = Course(self._peers)
            self._peers.append(course)
        course.add(record)
        match record:
            case Window(earlier=True):
                pass  # known to the previous watcher
            case Window() | Sample() | Validation() | Save():
                self._look(process, course)
                self.diary.note_course(process, course)
            case Output():
                self._note_logged(process, course)
            case Failed():
                self.report(f"watching ended: {record.problem}")
            case Checkpoint():
                told = f"checkpoint: {record.path}" if record.path else f"no checkpoint: {record.problem}"
                self.report(told)
            case Moment():
                self.report(f"profile of this moment: {record.path}")
            case Start():
                self.diary.note(
                    "start", process=process, rank=record.rank, world=record.world, torch=record.torch
                )
            case _:
                pass

    def read_host(self) -> None:
        """Reads the load of the machine and the host memory of the processes, without any work for the run itself."""
        load = self.load()
        if load is not None:
            for course in self.courses.values():
                course.add_load(load)
        self._read_memory()

    def _read_memory(self) -> None:
        now = time.monotonic()
        if now - self._memory_at < _MEMORY_EVERY_S:
            return
        self._memory_at = now
        for process, course in self.courses.items():
            if course.start is None or not course.windows:
                continue
            try:
                used = psutil.Process(course.start.process).memory_info().rss
            except psutil.Error:
                continue
            host = psutil.virtual_memory()
            course.add_memory(MemoryLevel(course.iteration, used, host.available, host.total, "host"))
            self._look(process, course)

    def status(self) -> str:
        """The state of the run in one line; empty before its first window."""
        running = [course for course in self.courses.values() if course.windows]
        if not running:
            return ""
        course = min(running, key=lambda one: one.rank)
        last = course.windows[-1]
        parts = [f"iteration {last.iteration}", f"{1 / last.iteration_s:.3g} it/s"]
        if last.loss is not None:
            parts.append(f"loss {last.loss:.4g}")
        if last.fetches:
            parts.append(f"waits for data {last.wait_s / last.seconds:.0%}")
        logged = next((one.logged.words for one in running if one.logged.words), "")
        if logged:
            parts.append(logged)
        if course.memory:
            parts.append(f"{course.memory[-1].used_bytes / 1e9:.1f} GB {course.memory[-1].where}")
        holding = sorted({name for (_, name), state in self._states.items() if state.holds})
        parts.append(", ".join(holding) if holding else f"alerts: {self.alerts}")
        return " · ".join(parts)

    def stop(self, course: Course, checkpoint: object, because: str) -> None:
        """Asks all processes of the run to end, once; the process of ``course`` writes the checkpoint first."""
        if self._stopped:
            return
        self._stopped = True
        self.report(f"stopping the run because {because}")
        for number, one in self.courses.items():
            self.command(number, {"do": "stop", "checkpoint": checkpoint if one is course else None})

    def report(self, message: str) -> None:
        """Stores and prints a message."""
        self.diary.note("report", message=message)
        self.say(f"skyline watch: {message}")

    def end(self, code: int | None) -> None:
        """Records the end of the run; the exit code is None if we are not its parent."""
        for process, course in self.courses.items():
            if course.windows:
                self.diary.note_last(process, course)
            self._note_logged(process, course, last=True)
        self.diary.note("end", exit_code=code, alerts=self.alerts)
        self.diary.close()

    def _note_logged(self, process: int, course: Course, *, last: bool = False) -> None:
        """Stores the state of the training's own log; if only its position changed, every few seconds or at the end."""
        now, logged = time.monotonic(), course.logged
        noted_at, noted = self._logged.get(process, (-math.inf, LoggedTraining()))
        moved = replace(noted, epoch=logged.epoch, samples=logged.samples, seconds=logged.seconds)
        waits = logged == moved and now - noted_at < _LOGGED_EVERY_S
        if logged != noted and (last or not waits):
            self._logged[process] = now, logged
            self.diary.note_logged(course.rank, course.iteration, logged)

    def _look(self, process: int, course: Course) -> None:
        for name, rule in list(self.rules.items()):
            try:
                found = rule.check(course)
            except Exception as error:
                del self.rules[name]
                self.report(f"rule {name} is left out: {said(error)}")
                continue
            self._follow(process, course, name, None if isinstance(found, Note) else found)
            if isinstance(found, Note):
                self._note(course, name, found)

    def _follow(self, process: int, course: Course, name: str, alert: Alert | None) -> None:
        state = self._states.get((process, name))
        if alert is None:
            if state is not None and state.holds:
                state.clear += 1
                if state.clear >= _OVER_AFTER:
                    state.holds = False
                    self.diary.note("over", rule=name, rank=course.rank, iteration=course.iteration)
            return
        now = time.monotonic()
        if state is not None:
            known = state.holds or now - state.said_at < _QUIET_S
            state.holds, state.clear = True, 0
            if known:
                return
        self._states[process, name] = _State(now)
        self.alerts += 1
        self.diary.note_alert(name, alert, course)
        self.say(alert_text(name, alert, course))
        self._act(process, course, name, alert)

    def _note(self, course: Course, name: str, note: Note) -> None:
        """Prints and stores a note, once for all processes, since it is about their machine."""
        now = time.monotonic()
        held_at = self._noted_at.get(name, -math.inf)
        self._noted_at[name] = now
        if now - held_at >= _QUIET_S:
            self.diary.note_cause(name, note, course)
            self.say("\n".join([f"{_beginning(course)}: note: {note.title}", *_indented(note.evidence)]))

    def _act(self, process: int, course: Course, name: str, alert: Alert) -> None:
        self.actions.tell(name, alert, course.iteration, course.rank, self.report)
        for command in self.actions.commands(name, course.iteration, course.rank):
            if command["do"] != "stop":
                self.command(process, command)
            else:
                self.stop(course, command["checkpoint"], f"of {name}")
        if name in self.actions.pause_on and not self._stopped:
            running = [one.start.process for one in self.courses.values() if one.start is not None]
            numbers = " ".join(map(str, running))
            self.report(f"paused because of {name}: kill -CONT {numbers} continues it, Ctrl+C ends the run")
            self.pause(running)


def alert_text(name: str, alert: Alert, course: Course) -> str:
    """An alert as it is printed."""
    where = f" ({_shown(alert.place.file, alert.place.line)})" if alert.place is not None else ""
    return "\n".join([f"{_beginning(course)}: {name}: {alert.title}{where}", *_indented(alert.evidence)])


def _beginning(course: Course) -> str:
    rank = f"rank {course.rank}, " if len(course.peers) > 1 else ""
    return f"skyline watch: {rank}iteration {course.iteration}"


def _indented(evidence: Sequence[str]) -> list[str]:
    return [f"    {one}" for one in evidence]


def _shown(file: str, line: int) -> str:
    return place(file, line, Path(os.path.realpath(os.curdir)))
