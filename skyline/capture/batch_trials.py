"""Trials of the script at other batch sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import field, replace

import psutil

from skyline.capture.assemble import ScriptRun
from skyline.capture.bare import BareRows
from skyline.capture.batch_in_force import UNKNOWN, may_follow
from skyline.capture.batch_way import BatchWay, followed_by, ignored, loader_way, sized_run
from skyline.capture.child_process import ScriptEnded
from skyline.capture.device_room import Sharing
from skyline.capture.events import StepRow
from skyline.capture.held_run import HeldRun, TurnPace
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.size_costs import SizeCosts
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.turns import (
    Expendable,
    PastTurn,
    TakesTurns,
    in_turns,
    own_rows,
    trial,
    undisturbed,
    widened,
)
from skyline.errors import BudgetExceeded, ScriptFailed
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import Knob
from skyline.trace.trial import Choices, Trial

PACE = TurnPace(turn_s=0.3, least=0, most=24, turns_per_life=10, restarts=0, stopped=False)
"""The pace of runs at other batch sizes. A run that ends is not started again; with too few turns it is left out."""
_LONGEST_STEP_MS = 6_000.0
_MOST_ROUNDS, _LEAST_ROUNDS = 8, 1
"""A single round, whose range is wide, is used only if a busy machine has spent the budget by then."""
_ROUNDS_ALONE, _LEAST_ROUNDS_ALONE = 3, 2
"""Rounds of a run that has the device to itself. The unchanged script cannot run in them to show a drift."""
_SIZES_OF_A_CURVE = 2
"""Number of sizes that may exceed the budget, because predictions for other batch sizes are based on them."""
_PATIENCE_S = 20.0
"""Seconds beyond the budget: the second size is started only if it will probably end by then."""
_SHARE_OF_FREE_MEMORY = 0.5
_MOST_LITERALS = 2
"""Number of candidates that are tried with other values."""


@dataclass(frozen=True, slots=True)
class BatchTrials:
    """Trials at other batch sizes, and the runs at these sizes that are still held.

    ``run`` is the script's own run, updated with the result of these trials: the literal that sets its batch size,
    or that no literal does.
    """

    run: ScriptRun
    trials: tuple[Trial, ...] = ()
    held: dict[int, HeldRun] = field(default_factory=dict[int, HeldRun])


def ways(run: ScriptRun) -> Sequence[BatchWay]:
    """The ways to run the script at another batch size: through a literal, the loader, or a settings file."""
    found = run.in_force
    if found.size is None:
        # A multiple is no proof, but a trial shows if the run follows the literal.
        return [knob for knob in run.knobs.candidates if may_follow(knob, run.facts)][:_MOST_LITERALS]
    loader = loader_way(found.loader)
    return [*found.knobs[:_MOST_LITERALS], *([loader] if loader else []), *found.places[:1]]


def measure_batch_sizes(
    stack: ExitStack,
    launcher: ScriptLauncher,
    base: HeldRun,
    run: ScriptRun,
    budget: TrialBudget,
    later_s: Callable[[float], float] = lambda left_s: 0.0,
) -> BatchTrials:
    """Measure other batch sizes in the first way that works; the runs stay held until ``stack`` is closed.

    ``later_s`` maps the seconds left to the seconds that later trials need. Those have priority over a third size.
    """
    failed: list[str] = []
    refused: list[str] = []
    for way in ways(run):
        size = way.value if isinstance(way, Knob) else run.batch_size
        assert size is not None
        sizes = _OtherSizes(stack, launcher, base, run, budget, way, size, later_s)
        follows = sizes.measure()
        if follows and not sizes.started:
            return BatchTrials(replace(run, notes=(*run.notes, *refused, *failed, *sizes.notes)))
        if not follows:
            (refused if isinstance(way, Knob) else failed).append(ignored(way))
            continue
        if not sizes.any_ran and not isinstance(way, Knob):
            # No run worked this way. Another way may also change other values that depend on the batch size.
            failed += sizes.notes
            continue
        if isinstance(way, Knob):
            in_force = replace(run.in_force, size=size, knobs=(way,))
            run = replace(run, in_force=in_force, knobs=run.knobs.preferring((way,)))
        else:
            run = _without_literal(run, refused)
        rows = run.rows if run.rows.settled else BareRows([*run.rows.rows, *sizes.own_rows])
        run = replace(run, rows=rows, notes=(*run.notes, *refused, *sizes.notes))
        return BatchTrials(run, tuple(sizes.trials), sizes.held)
    if refused and not run.in_force.sure:
        run = replace(run, in_force=UNKNOWN)
    return BatchTrials(replace(_without_literal(run, refused), notes=(*run.notes, *refused, *failed)))


class _OtherSizes:
    """Runs at other batch sizes that are all set in the same way, and their trials."""

    def __init__(
        self,
        stack: ExitStack,
        launcher: ScriptLauncher,
        base: HeldRun,
        run: ScriptRun,
        budget: TrialBudget,
        way: BatchWay,
        own_size: int,
        later_s: Callable[[float], float],
    ) -> None:
        self._stack = stack
        self._launcher = launcher
        self._base = base
        self._run = run
        self._whole = self._budget = budget
        self._later_s = later_s
        self._costs = SizeCosts(
            own_size,
            run.rows.present_ms / 1e3,
            max(0.0, run.ready.script_s - run.ready.warmup * run.rows.present_ms / 1e3),
            run.ready.warmup,
            starts_again=run.ended_after is not None,
            always_records=base.room is not None,
        )
        self._slower = 1.0
        """Ratio of the actual to the expected time of the last start."""
        self._slower_turns = 1.0
        """Ratio of the actual to the expected time of an iteration, in the last run that was started."""
        self._untimely: list[int] = []
        """Sizes for which no time was left."""
        self._way = way
        self._own_size = own_size
        self._made: dict[int, HeldRun] = {}
        self.notes: list[str] = []
        self.trials: list[Trial] = []
        self.held: dict[int, HeldRun] = {}
        self.any_ran = False
        self._ignored = False
        """True if a run did not follow the batch size that was set."""
        self.started: list[int] = []
        self.own_rows: list[StepRow] = []
        """Iterations of the unchanged script in these turns."""

    def measure(self) -> bool:
        """Return True if the batch of the run changes as wanted; each size is then measured or has a note.

        If the runs do not all fit on the device, they run there one at a time, and none of them is held afterwards.
        """
        follows = self._measure()
        if self._untimely and follows:
            self.notes.append(self._no_time())
        return follows

    def _measure(self) -> bool:
        recording, count = self._run.recording, self._launcher.request.batch_points
        fixed_bytes, peak_bytes = recording.memory.total_bytes, recording.peak_bytes
        room = self._base.room
        host_bytes = int(psutil.virtual_memory().available * _SHARE_OF_FREE_MEMORY / max(1, count))

        def within(budget_s: float) -> tuple[int, ...]:
            return sizes_to_measure(
                self._own_size,
                count,
                self._costs,
                longest_step_ms=_LONGEST_STEP_MS,
                fixed_bytes=fixed_bytes,
                peak_bytes=peak_bytes,
                free_bytes=host_bytes if room is None else room.tensor_bytes,
                dataset_size=self._run.dataset_size,
                budget_s=budget_s,
            )

        wanted = within(math.inf)
        left_s = self._whole.left_s
        curve_s = self._costs.all_s(wanted[:_SIZES_OF_A_CURVE])
        self._budget = self._whole.without(min(self._later_s(left_s), max(0.0, left_s - curve_s)))
        sizes = within(self._budget.left_s)
        self._untimely += [size for size in wanted if size not in sizes]
        if not sizes:
            return True
        self._launcher.say("curve", f"starting at batch sizes {', '.join(map(str, sizes))}", 0.6)
        launcher = self._launcher
        for size in sizes:
            sized = sized_run(self._way, size, launcher.request.arguments, launcher.sources)
            if sized is None:
                return False
            total = self._run.iterations_at(size)
            recorded = self._costs.records_memory(size)
            self._made[size] = HeldRun(launcher, PACE, sized=sized, total=total, recorded=recorded)
        peaks = {size: tensor_bytes(size, self._own_size, fixed_bytes, peak_bytes) for size in sizes}
        if room is not None and sizes and room.sharing(list(peaks.values())) is not Sharing.TOGETHER:
            return self._one_by_one({size: room.sharing([peak]) for size, peak in peaks.items()})
        return self._together()

    def _together(self) -> bool:
        for one in self._made.values():
            self._stack.enter_context(one).launch()
        # More runs at a time would use more threads than there are cores. On a device they would also change each
        # other's free memory.
        environment = self._run.facts.environment
        at_a_time = (
            max(1, environment.cpu_count // environment.intraop_threads) if self._base.room is None else 1
        )
        with ThreadPoolExecutor(at_a_time) as pool:
            follow = dict(
                zip(self._made, pool.map(self._warmed_up, self._made, self._made.values()), strict=True)
            )
        if None in follow.values():
            for one in self._made.values():
                one.close()
            return False
        self.held.update({size: one for size, one in self._made.items() if follow[size]})
        if self.held:
            self._launcher.say("curve", "measuring alternately", 0.75)
            self._take_turns(Expendable(self._base), self.held, self._budget, _MOST_ROUNDS)
        return True

    def _one_by_one(self, sharing: dict[int, Sharing]) -> bool:
        # The sizes for which the script's own run has to leave the device come last.
        for number, size in enumerate(sorted(sharing, key=lambda size: sharing[size] is Sharing.ALONE)):
            alone = sharing[size] is Sharing.ALONE
            if alone:
                self._base.close()
            else:
                self._base.share(Sharing.RELEASING)
            with self._made[size] as one:
                follows = self._warmed_up(size, one)
                if follows is None:
                    # If the first run does not follow the literal, no other run will.
                    return number > 0
                if follows and alone:
                    # A GPU's clock drifts less than the load of a machine, and there is no other way.
                    past = PastTurn(self._run.rows.median_ms)
                    self._take_turns(past, {size: one}, self._budget, _ROUNDS_ALONE, _LEAST_ROUNDS_ALONE)
                elif follows:
                    one.share(Sharing.RELEASING)
                    self._launcher.say("curve", f"measuring batch size {size}", 0.75)
                    others = len(sharing) - number - 1
                    budget = self._budget.without(self._budget.left_s * others / (others + 1))
                    self._take_turns(Expendable(self._base), {size: one}, budget, _MOST_ROUNDS)
        return True

    def _take_turns(
        self,
        base: TakesTurns,
        held: dict[int, HeldRun],
        budget: TrialBudget,
        rounds: int,
        least: int = _LEAST_ROUNDS,
    ) -> None:
        # The runs are already started: they may use the time that was reserved for other trials.
        held = dict(held)
        while len(held) > _SIZES_OF_A_CURVE and not self._whole.fits(self._rounds_s([*held], least)):
            self._untimely.append(held.popitem()[0])
        variants = [Expendable(one) for one in held.values()]
        done = in_turns(
            base,
            variants,
            rounds=rounds,
            least=least,
            whole=1,
            deadline=budget.ends_s,
            wakes=self._costs.wakes,
        )
        self.own_rows += own_rows(done)
        for number, (size, one) in enumerate(held.items()):
            calm = undisturbed(done, number)
            found = widened(trial(Choices(batch_size=size), calm, number, peak_bytes=one.peak_bytes))
            if found.ratios:
                self.trials.append(found)
            elif time.monotonic() > budget.ends_s:
                self._untimely.append(size)

    def _rounds_s(self, sizes: Sequence[int], rounds: int) -> float:
        # The factor scales one iteration, not the sum: a turn of quick iterations has a fixed length.
        present = replace(self._costs, step_s=self._costs.step_s * self._slower_turns)
        return present.rounds_s(sizes, rounds)

    def _no_time(self) -> str:
        """The note on the sizes for which no time was left, with a budget that would be enough."""
        sizes = sorted({*self._untimely})
        total_s = self._whole.total_s
        enough_s = 10 * math.ceil((total_s + self._slower_turns * self._costs.all_s(sizes)) / 10)
        named = f"{'Batch size' if len(sizes) == 1 else 'Batch sizes'} {', '.join(map(str, sizes))}"
        known = "modelled, not measured" if self.trials else "not measured"
        return (
            f"{named}: {known}, because the time for trials ({total_s:g} s) was too short. "
            f"About {enough_s} s are enough (--budget {enough_s})."
        )

    def _warmed_up(self, size: int, one: HeldRun) -> bool | None:
        """True if a run at this size warmed up, False (with a note) if not, None if its batch has another size."""
        if self._ignored:
            one.close()
            return None
        expected_s = self._costs.until_turns_s(size)
        rounds_s = self._rounds_s([*self.started, size], _LEAST_ROUNDS)
        enough = len(self.started) >= _SIZES_OF_A_CURVE
        budget = self._budget if enough else self._whole.longer(_PATIENCE_S)
        if self.started and not budget.fits(self._slower * expected_s + rounds_s):
            self._untimely.append(size)
            one.close()
            return False
        self.started.append(size)
        began_s = time.monotonic()
        try:
            return self._follows(size, one)
        finally:
            self._slower = max(1.0, (time.monotonic() - began_s) / max(expected_s, 1e-3))

    def _follows(self, size: int, one: HeldRun) -> bool | None:
        try:
            one.warm_up()
        except ScriptEnded as ended:
            reason = f"the script ended after {ended.ended.boundaries} iterations"
        except (ScriptFailed, BudgetExceeded) as failure:
            reason = failure.message
        else:
            before, loader = self._run.facts, self._run.in_force.loader
            self.any_ran = True
            self._slower_turns = max(1.0, one.typical_ms / 1e3 / max(self._costs.iteration_s(size), 1e-6))
            self._ignored = not followed_by(self._way, self._own_size, size, before, loader, one.ready.facts)
            return None if self._ignored else True
        one.close()
        self.notes.append(f"Batch size {size} was skipped: {reason}.")
        return False


def _without_literal(run: ScriptRun, refused: Sequence[str]) -> ScriptRun:
    """The run without its literals if it did not follow them: they must not be edited as if they set the batch."""
    return replace(run, knobs=replace(run.knobs, refusal=" ".join(refused))) if refused else run


_FACTORS = (2.0, 0.25, 4.0, 0.5, 8.0)
"""Factors far apart, larger sizes first: people mostly ask about larger batches."""


def sizes_to_measure(
    batch_size: int,
    count: int,
    costs: SizeCosts,
    *,
    longest_step_ms: float,
    fixed_bytes: int,
    peak_bytes: int,
    free_bytes: int,
    dataset_size: int | None,
    budget_s: float,
) -> tuple[int, ...]:
    """Up to ``count`` sizes around the script's own that are expected to fit in time and memory.

    The first two are chosen even if they exceed ``budget_s``.
    """
    chosen: list[int] = []
    for factor in _FACTORS:
        size = max(1, round(batch_size * factor))
        fits = tensor_bytes(size, batch_size, fixed_bytes, peak_bytes) < free_bytes
        quick = size <= batch_size or 1e3 * costs.step_s * size / batch_size <= longest_step_ms
        enough_data = dataset_size is None or size <= dataset_size
        affordable = len(chosen) < _SIZES_OF_A_CURVE or costs.all_s([*chosen, size]) <= budget_s
        if size != batch_size and size not in chosen and fits and quick and enough_data and affordable:
            chosen.append(size)
        if len(chosen) == count:
            break
    return tuple(chosen)


def tensor_bytes(size: int, batch_size: int, fixed_bytes: int, peak_bytes: int) -> int:
    """The expected bytes of tensors at another size; memory that outlives an iteration does not change."""
    return fixed_bytes + max(0, peak_bytes - fixed_bytes) * size // batch_size
