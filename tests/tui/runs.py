"""A watched run and a search by trials, as a session answers with them; loaded by ``conftest.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual.message import Message

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.report.protocol import TuneParams, WatchedParams
from skyline.report.tune import TUNE_SCHEMA, TuneProgress, TuneReport
from skyline.tune.trials import TuneTrial
from skyline.watch.mllog import LoggedTraining
from skyline.watch.watch_report import WatchAlert, WatchPoint, WatchReport
from skyline_tui import messages

NAMES = ("train-watch-20261121-140200.jsonl", "train-watch-20261120-090000.jsonl")


def made_run(script: Path, name: str = NAMES[0], *, ended: bool = False) -> WatchReport:
    """An hour of training that becomes slower; its second alert is over."""
    points = tuple(
        WatchPoint(
            5.0 * number,
            40 * number,
            120.0 + 20.0 * (number > 60) + 6.0 * (number % 7 == 0),
            0.08 + 0.2 * (number > 60),
            0.3,
            2.3 / (1 + number / 40),
            2_100_000_000,
        )
        for number in range(1, 101)
    )
    stalls = WatchAlert(
        "loader_stalls",
        0,
        310.0,
        2480,
        "the loop waits for data 28 % of the time",
        ("40.3 ms per batch, at most 1.20 s",),
        str(script),
        9,
    )
    saves = WatchAlert(
        "checkpoint_stalls",
        0,
        100.0,
        800,
        "saving takes 12 % of the time",
        ("3.1 s each",),
        str(script),
        13,
        1200,
    )
    return WatchReport(
        name=name,
        command=("python", "train.py"),
        started="2026-11-21T14:02:00+00:00",
        state="ended" if ended else "running",
        exit_code=0 if ended else None,
        duration_s=500.0,
        ranks=1,
        points=points,
        alerts=(saves, stalls),
        messages=("profile of this moment: train-watch-trace.json",),
        watching_share=0.0021,
        logged=LoggedTraining(epoch=3.2, metric="eval_accuracy", quality=0.741, target=0.759),
        names=NAMES,
    )


def _range(value: float) -> Interval:
    return Interval(value, 0.97 * value, 1.03 * value)


TRIALS = (
    TuneTrial(("num_workers=2",), _range(1.12), _range(1.09), 1.0, 1_900_000_000, 14.0, False, None),
    TuneTrial(
        ("fused_optimizer", "num_workers=4"),
        _range(1.24),
        _range(1.21),
        1.0,
        1_900_000_000,
        15.0,
        False,
        None,
    ),
    TuneTrial(("compile",), _range(1.3), None, 1.0, None, 31.0, True, "no C++ compiler was found"),
)


def made_search(script: Path, asked: TuneParams) -> TuneReport:
    """A search whose second trial won."""
    return TuneReport(
        schema=TUNE_SCHEMA,
        script=str(script),
        allowed=asked.allow,
        outcome="faster",
        budget_s=asked.budgetSeconds,
        spent_s=92.0,
        trial_s=15.0,
        ended="no combination left is likely to gain more",
        trials=TRIALS,
        best=TRIALS[1],
        verified=TRIALS[1],
        semantics="exact",
        command="skyline apply train.py fused_optimizer num_workers=4",
        diff="",
        suggested=("fused_optimizer", "num_workers=4"),
        suggested_speedup=_range(1.24),
        left_out=(),
        notes=(),
    )


@pytest.fixture
def watched_run(script: Path) -> WatchReport:
    return made_run(script)


@pytest.fixture
def trials() -> tuple[TuneTrial, ...]:
    return TRIALS


@dataclass
class FakeRuns:
    """The part of a session that the pages of runs and of trials ask."""

    script: Path
    post: Callable[[Message], object]
    watched_run: WatchReport | None = None
    runs_asked: list[str | None] = field(default_factory=list)
    searched: list[TuneParams] = field(default_factory=list)
    kept_trials: tuple[TuneTrial, ...] = ()
    no_search: str = ""
    """Why a search fails."""
    search_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the test, to let the search come to its end."""

    def tuning(self, *trials: TuneTrial, running: bool = True, spent_s: float = 60.0) -> TuneProgress:
        measured = [(one.speedup.value, at) for at, one in enumerate(trials) if one.speedup is not None]
        best = max(measured)[1] if measured else None
        doing = "trial 2: measuring" if running else ""
        return TuneProgress(self.script.as_uri(), running, doing, 300.0 * running, spent_s, trials, best)

    async def watched(self, asked: WatchedParams) -> WatchReport | None:
        self.runs_asked.append(asked.name)
        if self.watched_run is None or asked.name is None:
            return self.watched_run
        return made_run(self.script, asked.name, ended=True)

    async def tuned(self) -> TuneProgress | None:
        return self.tuning(*self.kept_trials, running=False) if self.kept_trials else None

    async def tune(self, asked: TuneParams) -> TuneReport:
        self.searched.append(asked)
        if self.no_search:
            raise UsageError(self.no_search)
        self.post(messages.TuningMoved(self.tuning(*TRIALS[:1])))
        await self.search_on.wait()
        self.post(messages.TuningMoved(self.tuning(*TRIALS, running=False)))
        return made_search(self.script, asked)
