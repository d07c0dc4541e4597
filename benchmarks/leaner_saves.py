"""Intervals between checkpoints: the time that ``skyline estimate`` finds for saving, and whole periods of real runs.

The answer is made first, from the profile and the observed training. Then Skyline writes ``checkpoint_every=N``. The
unchanged script, the changed script and the unchanged script again (the null) take turns. A turn lasts a whole number
of both intervals, and its time is the mean of its iterations, because few of them save and a median would miss them.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from whatifs import Row, Said, WhatIfScript

from skyline.analysis.analyse import analyse
from skyline.analysis.gpu_costs import samples_of
from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess
from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.session import capture
from skyline.capture.training_session import observe_training
from skyline.capture.turns import Turn, in_turns, trial
from skyline.errors import SkylineError
from skyline.interval import bootstrap
from skyline.predict.checkpoint_interval import Failures, Saving, lost_share, saving
from skyline.trace.trial import Choices
from skyline.verification.change import change
from skyline.whatif.question import Choice, Question

NAME = "checkpoint_every"
OBSERVED_S = 30.0
"""The time for which ``skyline estimate`` observes a training by default."""
_LEAST_S = 4.0
"""Smallest length of a turn. A turn has as many periods as needed."""
_SETTLING = 3
"""Iterations at the beginning of a turn that do not count, because other runs used the caches."""
_NEVER_S = 1e15
"""The time between two failures for a run without failures."""


@dataclass(frozen=True, slots=True)
class WholePeriods:
    """A run whose turns are ``iterations`` consecutive iterations, after some that do not count."""

    run: HeldRun
    iterations: int

    def turn(self) -> Turn | None:
        """The mean time of the iterations. The number of saves in them does not depend on where the turn begins."""
        return self.run.compute(self._timed)

    def _timed(self, child: ChildProcess) -> Turn:
        rows = run_bare(child, _SETTLING + self.iterations)[_SETTLING:]
        return Turn(statistics.fmean(row.step_ms for row in rows), rows)


def said_of(found: Saving, every: int) -> Said:
    """The time of a training that saves every ``every`` iterations over its present time, without failures."""
    assert found.every is not None
    step_s, now = found.iteration_ms / 1e3, found.every

    def ratio(save_s: float) -> float:
        shares = (lost_share(one * step_s, save_s, 0.0, _NEVER_S) for one in (every, now))
        return (1 + next(shares)) / (1 + next(shares))

    value, *ends = map(ratio, (found.save_s.value, *found.save_s.ends[1:]))
    basis = (
        f"a save of {1e3 * found.save_s.value:.1f} ms, seen {found.seen} times, every {now:g} iterations of "
        f"{found.iteration_ms:.1f} ms"
    )
    return Said((f"{NAME}={every}",), value, min(ends), max(ends), 1.0, 0.0, basis)


def periods(now: float, every: int, step_ms: float) -> int:
    """The number of iterations of a turn: whole intervals of both, and enough for some seconds."""
    whole = math.lcm(round(now), every)
    return whole * max(1, round(1e3 * _LEAST_S / (whole * step_ms)))


def saved_rows(plain: WhatIfScript, values: Sequence[int], working: Path, rounds: int) -> list[Row]:
    """A row for each interval. Empty if the script did not save twice."""
    request = replace(plain.request(working), batch_points=0, trials=False)
    profile = capture(request, progress=lambda _: None)
    training = observe_training(request, int(samples_of(profile) or 1), OBSERVED_S, progress=lambda _: None)
    found = saving(training, Failures())
    if found is None or found.every is None:
        print(f"{plain.name}: fewer than two saves were seen", file=sys.stderr)
        return []
    analysis = analyse(replace(profile, training=training))
    rows: list[Row] = []
    for every in values:
        said = said_of(found, every)
        print(f"{plain.name}: {said}", file=sys.stderr)
        try:
            asked = Question(choices=(Choice(NAME, str(every)),))
            changed = change(analysis, asked, plain.arguments).over(plain.request(working))
        except SkylineError as refused:
            print(f"{plain.name}: not written: {refused.message}", file=sys.stderr)
            continue
        count = periods(found.every, every, found.iteration_ms)
        rows.append(_measured(plain, said, (plain.request(working), changed), count, rounds))
    return rows


def _measured(
    plain: WhatIfScript, said: Said, requests: tuple[CaptureRequest, CaptureRequest], count: int, rounds: int
) -> Row:
    now, changed = requests
    with ExitStack() as stack:
        runs = [stack.enter_context(HeldRun(ScriptLauncher(one))) for one in (now, changed, now)]
        for run in runs:
            run.launch()
            run.warm_up()
        base, other, again = (WholePeriods(run, count) for run in runs)
        done = in_turns(base, [other], again, rounds=rounds)
        null = bootstrap([one.null for one in done if one.null is not None])
        return Row(plain.name, said, bootstrap(trial(Choices(), done, 0).ratios), null, runs[1].peak_bytes)
