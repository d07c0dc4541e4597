"""A watched run for a page: iteration times, shares, alerts and progress, from its history."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.watch.diary import entries, histories
from skyline.watch.mllog import LoggedTraining

_SILENT_AFTER_S = 30.0
"""The time without an entry after which a run is silent: it writes every five seconds, or once per iteration."""
_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class WatchPoint:
    """The run at a moment. Shares are relative to the iteration; ``loss`` is null if it is unknown or no number."""

    at_s: float
    iteration: int
    iteration_ms: float
    wait_share: float
    forward_share: float
    loss: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class WatchAlert:
    """A rule that held. ``over_iteration`` is its end, null while it holds. ``line`` 0: no line is known."""

    rule: str
    rank: int
    at_s: float
    iteration: int
    title: str
    evidence: tuple[str, ...]
    file: str
    line: int
    over_iteration: int | None = None


@dataclass(frozen=True, slots=True)
class WatchReport:
    """A run of ``skyline watch``.

    ``state``: ``running``, ``silent`` (no update for 30 s: the run waits, or its watcher ended), or
    ``ended``. ``exit_code`` is null while the run goes on, and for a run whose first watcher was killed.
    ``points`` belong to the lowest rank, ``watching_share`` is the share of the time that the hooks took.
    ``logged`` is null for a script without a log of its own. ``names`` are the files of all runs, newest
    first.
    """

    name: str
    command: tuple[str, ...]
    started: str
    state: Literal["running", "silent", "ended"]
    exit_code: int | None
    duration_s: float
    ranks: int
    points: tuple[WatchPoint, ...]
    alerts: tuple[WatchAlert, ...]
    messages: tuple[str, ...]
    watching_share: float | None
    logged: LoggedTraining | None
    names: tuple[str, ...]


def latest_report(script: Path, name: str | None = None) -> WatchReport | None:
    """The latest run of a script, or the run with this name; None if there is none.

    Raises:
        UsageError: the run of this name does not exist, or its file cannot be read.
    """
    found = {one.name: one for one in histories(script)}
    if name is None:
        name = next(iter(found), None)
    if name is None:
        return None
    if name not in found:
        raise UsageError(f"There is no run {name} of {script.name}")
    path = found[name]
    try:
        quiet_s = time.time() - path.stat().st_mtime
    except OSError:
        quiet_s = 0.0  # removed in the meantime: reading it raises the error
    return watch_report(name, list(entries(path)), quiet_s, tuple(found))


def watch_report(
    name: str, history: Sequence[dict[str, Any]], quiet_s: float, names: tuple[str, ...]
) -> WatchReport:
    """The report of the entries of a history, whose last entry was written ``quiet_s`` ago."""
    header, *rest = history
    courses = [one for one in rest if one.get("kind") == "course"]
    ranks = {int(one["rank"]) for one in courses}
    own = [one for one in courses if one["rank"] == min(ranks)]
    points = _thinned([_point(one) for one in own])
    last = rest[-1] if rest else {}
    ended = last.get("kind") == "end"
    logged = next((one for one in reversed(rest) if one.get("kind") == "logged"), None)
    return WatchReport(
        name=name,
        command=tuple(map(str, header.get("command", ()))),
        started=str(header.get("started", "")),
        state="ended" if ended else "silent" if quiet_s > _SILENT_AFTER_S else "running",
        exit_code=int(last["exit_code"]) if ended and last["exit_code"] is not None else None,
        duration_s=float(last.get("at_s", 0.0)),
        ranks=len(ranks),
        points=points,
        alerts=_alerts(rest),
        messages=tuple(filter(None, map(_message, rest))),
        watching_share=_watching_share(own),
        logged=None if logged is None else LoggedTraining.of_history(logged),
        names=names,
    )


def _message(entry: dict[str, Any]) -> str:
    """A message, or a note with its iteration; empty for anything else."""
    match entry.get("kind"):
        case "report":
            return str(entry["message"])
        case "note":
            return f"iteration {entry['iteration']}: {'; '.join([entry['title'], *entry['evidence']])}"
        case _:
            return ""


def _point(entry: dict[str, Any]) -> WatchPoint:
    loss = entry.get("loss")
    # A loss that is no number is text.
    number = float(loss) if loss is not None else math.nan
    return WatchPoint(
        float(entry["at_s"]),
        int(entry["iteration"]),
        float(entry["iteration_ms"]),
        float(entry.get("wait_share", 0.0)),
        float(entry.get("forward_share", 0.0)),
        number if math.isfinite(number) else None,
        entry.get("memory_bytes"),
    )


def _alerts(rest: Iterable[dict[str, Any]]) -> tuple[WatchAlert, ...]:
    """All alerts in their order, each with its end."""
    found: list[WatchAlert] = []
    for entry in rest:
        if entry.get("kind") == "alert":
            found.append(
                WatchAlert(
                    str(entry["rule"]),
                    int(entry["rank"]),
                    float(entry["at_s"]),
                    int(entry["iteration"]),
                    str(entry["title"]),
                    tuple(map(str, entry["evidence"])),
                    str(entry["file"]),
                    int(entry["line"]),
                )
            )
        elif entry.get("kind") == "over":
            for number, one in enumerate(found):
                if (one.rule, one.rank, one.over_iteration) == (entry["rule"], entry["rank"], None):
                    found[number] = replace(one, over_iteration=int(entry["iteration"]))
    return tuple(found)


def _watching_share(own: Sequence[dict[str, Any]]) -> float | None:
    if len(own) < 2:
        return None
    first, last = own[0], own[-1]
    elapsed_s = last["at_s"] - first["at_s"]
    return max(0.0, last["watching_s"] - first["watching_s"]) / elapsed_s if elapsed_s > 0 else None


def _thinned(points: Sequence[WatchPoint]) -> tuple[WatchPoint, ...]:
    """At most a few hundred points: each stands for several neighbours, with their mean time and shares."""
    each = -(-len(points) // _MOST_POINTS)
    if each <= 1:
        return tuple(points)
    groups = [points[at : at + each] for at in range(0, len(points), each)]
    return tuple(
        replace(
            group[-1],
            iteration_ms=sum(one.iteration_ms for one in group) / len(group),
            wait_share=sum(one.wait_share for one in group) / len(group),
            forward_share=sum(one.forward_share for one in group) / len(group),
        )
        for group in groups
    )
