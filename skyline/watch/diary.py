"""The history of a watched run: one file, a JSON object per line."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError
from skyline.watch.course import Course
from skyline.watch.mllog import LoggedTraining
from skyline.watch.rule import Alert, Note

if TYPE_CHECKING:
    from skyline.trace.profile import Profile

SCHEMA = "skyline.watch/1"
_FOLDER = ".skyline"
_COURSE_EVERY_S = 5.0


class Diary:
    """Appends entries, each written at once; ``at_s`` counts from its beginning. Without a path nothing is stored.

    ``goes_on``: the file belongs to a watcher that was killed, and is continued.
    """

    def __init__(self, path: Path | None, command: list[str], *, goes_on: bool = False) -> None:
        self.path = path
        self._file: IO[str] | None = None
        self._began = time.monotonic()
        self._noted: dict[int, float] = {}
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.name == _FOLDER and not os.path.lexists(path.parent / ".gitignore"):
                (path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
            if goes_on and (began := _began(path)) is not None:
                self._began -= max(0.0, time.time() - began.timestamp())
                self._file = path.open("a", encoding="utf-8")
                # The last entry may have been cut off.
                self._file.write("\n")
                return
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror or error}",
                hint="Name another file with --history FILE, or keep none with --no-history.",
            ) from error
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write({"schema": SCHEMA, "started": started, "command": command})

    def note(self, kind: str, **fields: object) -> None:
        """Writes an entry of some kind."""
        self._write({"kind": kind, "at_s": round(time.monotonic() - self._began, 2), **fields})

    def note_course(self, process: int, course: Course) -> None:
        """Writes the state of a process, at most every few seconds."""
        now = time.monotonic()
        if now - self._noted.get(process, -math.inf) < _COURSE_EVERY_S or not course.windows:
            return
        self._noted[process] = now
        self.note_last(process, course)

    def note_last(self, process: int, course: Course) -> None:
        """Writes the present state of a process."""
        last = course.windows[-1]
        before_s = max(0.0, last.own_s - last.wait_s)
        self.note(
            "course",
            process=process,
            rank=course.rank,
            iteration=last.iteration,
            iteration_ms=last.iteration_s * 1e3,
            wait_share=last.wait_s / last.seconds if last.seconds else 0.0,
            forward_share=before_s / last.seconds if last.seconds else 0.0,
            loss=last.loss,
            memory_bytes=course.memory[-1].used_bytes if course.memory else None,
            watching_s=last.watching_s,
        )

    def note_logged(self, rank: int, iteration: int, logged: LoggedTraining) -> None:
        """Writes the progress from the training's own log."""
        self.note("logged", rank=rank, iteration=iteration, **asdict(logged))

    def note_alert(self, name: str, alert: Alert, course: Course) -> None:
        """Writes that a rule began to hold."""
        place = alert.place
        self.note(
            "alert",
            rule=name,
            rank=course.rank,
            iteration=course.iteration,
            title=alert.title,
            evidence=list(alert.evidence),
            file=place.file if place is not None else "",
            line=place.line if place is not None else 0,
        )

    def note_cause(self, name: str, note: Note, course: Course) -> None:
        """Writes that a rule found a cause outside of the training."""
        self.note(
            "note",
            rule=name,
            rank=course.rank,
            iteration=course.iteration,
            title=note.title,
            evidence=list(note.evidence),
        )

    def close(self) -> None:
        """Closes the file; nothing further is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, entry: dict[str, object]) -> None:
        if self._file is not None:
            # JSON has no NaN: a loss that is no finite number is text.
            plain = {
                key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
                for key, value in entry.items()
            }
            self._file.write(json.dumps(plain, ensure_ascii=False) + "\n")
            self._file.flush()


def _began(path: Path) -> datetime | None:
    """The start in the header of a history; None if there is none."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        first = file.readline(LARGEST_TEXT_BYTES)
    try:
        header = msgspec.json.decode(first, type=dict[str, Any])
        return datetime.fromisoformat(str(header["started"])) if header["schema"] == SCHEMA else None
    except (msgspec.MsgspecError, KeyError, ValueError):
        return None


def usual_path(folder: Path, stem: str) -> Path:
    """The file for a run that starts now, in the folder where profiles are saved."""
    return folder / _FOLDER / f"{stem}-watch-{datetime.now().strftime('%Y%m%d-%H%M%S')}.jsonl"


def histories(script: Path) -> list[Path]:
    """The files of a script's runs in the usual place, newest first."""
    found = (script.parent / _FOLDER).glob("*-watch-*.jsonl")
    return sorted((one for one in found if one.name.rpartition("-watch-")[0] == script.stem), reverse=True)


def entries(path: Path, containing: str = "") -> Iterator[dict[str, Any]]:
    """The entries of a file, the header first; an incomplete last line is left out.

    Only lines with the text ``containing`` are decoded, since a long run has many entries, and few of some kinds.

    Raises:
        UsageError: the file cannot be read, or is not a history of ``skyline watch``.
    """
    try:
        lines = read_bounded(path, LARGEST_TEXT_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(lines):
        if number and containing not in line:
            continue
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            entry = {}
        if number == 0 and entry.get("schema") != SCHEMA:
            raise UsageError(
                f"{path} is not a history of skyline watch", hint=f"Its first line does not name {SCHEMA}."
            )
        if entry:
            yield entry


_LATEST = 5
"""The number of runs that are examined."""


def with_reached_goal(profile: Profile) -> Profile:
    """The profile with the samples of the latest watched run that reached its target, unless it has a goal.

    A run with another batch size says nothing about the present script.
    """
    if profile.goal is not None:
        return profile
    # A watcher does not need the analysis of profiles.
    from skyline.analysis.gpu_costs import samples_of
    from skyline.trace.observed_training import TrainingGoal

    for path in histories(Path(profile.script))[:_LATEST]:
        try:
            history = list(entries(path, containing='"logged"'))
        except UsageError:
            continue
        logged = [LoggedTraining.of_history(one) for one in history if one.get("kind") == "logged"]
        last = logged[-1] if logged else LoggedTraining()
        same = last.batch_size is None or last.batch_size == samples_of(profile)
        if last.status == "success" and last.samples and same:
            source = f"{last.samples:,.0f} samples to the target in a watched run"
            return replace(profile, goal=TrainingGoal(last.samples, source=source))
    return profile
