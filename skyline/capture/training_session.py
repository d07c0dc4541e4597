"""Observes the script while it trains from its start: gradients at fixed weights, start-up, epoch ends, saves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import field, replace
from statistics import median

import msgspec

from skyline.capture.bare import run_steps
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.ended_early import too_few
from skyline.capture.events import LoaderSeen, Ready, StepRow
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, OutputCallback, ProgressCallback
from skyline.capture.script_launcher import ScriptLauncher
from skyline.errors import CaptureImpossible
from skyline.lazy_dataclass import dataclass
from skyline.trace.observed_training import GradientSample, ObservedSave, ObservedTraining

_COMPARED = 20
"""Iterations whose gradients are compared at the same weights."""
_LEAST_COMPARED = 8
_LEAST_USABLE = 4
_MOST_POINTS = 5
_COMPARING_SHARE = 0.5
"""Ratio of the time of the comparisons to the training time, if iterations are short enough."""
_CHUNK_S = 0.25
_LEAST_EACH = 3
"""Minimum number of iterations with a save, and without one, to compare their times."""
_NOTICEABLE = 0.5
"""The end of an epoch must add at least this share of a typical iteration; otherwise its cost is reported as 0."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """The child's answer: inner products of gradients, or the reason why this script has none."""

    products: tuple[tuple[float, ...], ...]
    loss: float | None
    discarded: int
    problem: str


def observe_training(
    request: CaptureRequest,
    samples: int,
    seconds: float,
    *,
    progress: ProgressCallback,
    output: OutputCallback | None = None,
    starter: Starter = start_fresh,
) -> ObservedTraining:
    """Let the script train for about ``seconds`` in a process of its own, and compare gradients in between.

    ``samples`` is the number of samples in an iteration. Raises the same errors as ``capture``.
    """
    if request.ranks > 1:
        raise CaptureImpossible(
            "Gradients can be compared only in scripts with one process",
            hint="Omit --ranks, or give the noise scale with --noise-scale.",
        )
    launcher = ScriptLauncher(
        replace(request, longest_step_s=None),
        progress=progress,
        output=output,
        starter=starter,
    )
    began = time.monotonic()
    with launcher.launch() as child:
        launcher.say("launch", f"starting {launcher.script.name}", 0.05)
        launcher.start(child)
        try:
            found = _Observation(launcher, child, samples, seconds, *_warmed_up(launcher, child, began))
        except ScriptEnded as ended:
            raise too_few(ended.ended) from None
        return found.run()


def _warmed_up(
    launcher: ScriptLauncher, child: ChildProcess, began: float
) -> tuple[Ready, float, list[float]]:
    """The facts at the end of the warm-up, the seconds until the first boundary, and the iterations in ms."""
    startup_s, steps_ms = 0.0, list[float]()
    while True:
        event = child.receive("boundary", "ready")
        startup_s = startup_s or time.monotonic() - began
        if event["event"] == "ready":
            child.keep_downloads()
            ready = msgspec.convert(event, Ready)
            if ready.facts.world_size > 1:
                raise CaptureImpossible("Gradients can be compared only in scripts with one process")
            return ready, startup_s, steps_ms
        if event["step_ms"] is not None:
            steps_ms.append(event["step_ms"])
        launcher.say("warm up", f"iteration {event['count']}", 0.1)


@dataclass(slots=True)
class _Observation:
    """The run so far; ``rows`` are the timed iterations by their number from the start."""

    launcher: ScriptLauncher
    child: ChildProcess
    samples: int
    seconds: float
    ready: Ready
    startup_s: float
    warmup_ms: list[float]
    done: int = 0
    compared: int = 0
    """Iterations that did not change the weights."""
    trained_s: float = 0.0
    rows: dict[int, StepRow] = field(default_factory=dict[int, StepRow])
    gradients: list[GradientSample] = field(default_factory=list[GradientSample])
    saves: list[ObservedSave] = field(default_factory=list[ObservedSave])

    def run(self) -> ObservedTraining:
        self.done = self.ready.warmup
        ended = False
        try:
            # The first iteration after a pause is not typical.
            self._train(4)
            count, points = _plan(self.seconds, self._typical_ms())
            for number in range(points):
                until_s = self.seconds / 2 ** (points - 1 - number) if number else 0.0
                if number and self.trained_s >= until_s:
                    continue  # the weights have not changed since the last comparison
                while self.trained_s < until_s:
                    left_ms = 1e3 * min(_CHUNK_S, until_s - self.trained_s)
                    self._train(max(1, int(left_ms / self._typical_ms())))
                self._compare(count, (number + 1) / points)
            while self.trained_s < self.seconds:
                self._train(max(1, int(1e3 * _CHUNK_S / self._typical_ms())))
        except ScriptEnded as finished:
            if not self.gradients:
                raise too_few(finished.ended) from None
            self.done, ended = finished.ended.boundaries, True
            self.saves += finished.ended.saves
        typical = self._typical_ms()
        steps_ms = {number: row.step_ms for number, row in self.rows.items()}
        return ObservedTraining(
            samples=self.samples,
            gradients=tuple(self.gradients),
            iterations=self.done,
            iteration_ms=typical,
            startup_s=self.startup_s,
            warming_s=sum(max(0.0, one - typical) for one in self.warmup_ms) / 1e3,
            epoch_end_s=epoch_end_s(steps_ms, self.ready.facts.loaders),
            replayed_evaluations=sum(one.count for one in self.ready.facts.evaluations),
            ended=ended,
            saves=tuple(self.saves),
            around_saves_s=around_saves_s(tuple(self.rows.values())),
        )

    def _typical_ms(self) -> float:
        return typical_ms(tuple(self.rows.values()))

    def _train(self, iterations: int) -> None:
        found = run_steps(self.child, iterations)
        self.saves += found.saves
        for row in found.rows:
            self.done += 1
            self.rows[self.done] = row
            self.trained_s += row.step_ms / 1e3

    def _compare(self, count: int, share: float) -> None:
        self.launcher.say("compare", f"gradients after {self.done} iterations", 0.1 + 0.8 * share)
        self.child.send("gradients", iterations=count)
        found = msgspec.convert(self.child.receive("gradients"), _Compared)
        name = self.launcher.script.name
        if found.problem:
            raise CaptureImpossible(
                f"The gradient noise scale cannot be measured: {name} {found.problem}",
                hint="Give it yourself if you know it: --noise-scale N.",
            )
        if len(found.products) >= _LEAST_USABLE:
            self.gradients.append(
                GradientSample(self.done, self.done - self.compared, found.products, found.loss)
            )
        elif not self.gradients and share >= 1:
            raise CaptureImpossible(
                f"The gradient noise scale cannot be measured: {found.discarded} of {count} gradients of {name} "
                "are not finite",
                hint="Check whether the loss becomes NaN.",
            )
        self.done += count
        self.compared += count


def typical_ms(rows: Sequence[StepRow]) -> float:
    """The median iteration without a save in ms; if there are too few, of all iterations minus their saves."""
    without = [row.step_ms for row in rows if not row.saving_ms]
    if len(without) < _LEAST_EACH:
        without = [row.step_ms - row.saving_ms for row in rows]
    return max(0.01, median(without))


def around_saves_s(rows: Sequence[StepRow]) -> float:
    """The extra time in s of an iteration with saves, minus the calls of ``torch.save`` themselves.

    The reasons are that models are copied to the host or to 16 bits before they are saved, and that caches are cold
    afterwards. Zero if there are too few iterations.
    """
    saving = [row for row in rows if row.saving_ms]
    others = [row.step_ms for row in rows if not row.saving_ms]
    if min(len(saving), len(others)) < _LEAST_EACH:
        return 0.0
    without_calls = median(row.step_ms - row.saving_ms for row in saving)
    return max(0.0, without_calls - median(others)) / 1e3


def _plan(seconds: float, step_ms: float) -> tuple[int, int]:
    """The number of gradients in a comparison, and the number of comparisons."""
    for count in (_COMPARED, _LEAST_COMPARED):
        points = int(_COMPARING_SHARE * seconds * 1e3 / (count * step_ms))
        if points > 1:
            return count, min(_MOST_POINTS, points)
    return _LEAST_COMPARED, 1


def epoch_end_s(rows: dict[int, float], loaders: Sequence[LoaderSeen]) -> float | None:
    """The extra time at the end of an epoch in s; None if no timed iteration follows the end of an epoch.

    An iteration lasts from one optimizer step to the next, so that the first one of an epoch includes the end of the
    last epoch. The last batch of an epoch may be dropped or not: the epoch length with the longer times is used.
    """
    loader = max(loaders, key=lambda one: one.iterations, default=None)
    if loader is None or not loader.dataset_size or not loader.batch_size or not loader.iterations:
        return None
    per_iteration = loader.batch_size * max(1, round(loader.fetches / loader.iterations))
    typical_ms = median(rows.values())
    found: list[float] = []
    for length in {loader.dataset_size // per_iteration, -(-loader.dataset_size // per_iteration)}:
        if length > 1:
            firsts = [took_ms for number, took_ms in rows.items() if number > length and number % length == 1]
            if firsts:
                found.append(median(firsts) - typical_ms)
    if not found:
        return None
    beyond_ms = max(found)
    return beyond_ms / 1e3 if beyond_ms > _NOTICEABLE * typical_ms else 0.0
