"""Trials of the script in other execution configs on a CPU: other numbers of threads, autocast, and both.

One process computes some iterations in each config in turn, so that every operator is timed with the script's own
tensors in the caches.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from statistics import median, median_low

from skyline.capture.assemble import ScriptRun
from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess
from skyline.capture.held_run import WARMS_AGAIN_MS, HeldRun, typical_ms
from skyline.capture.recording import record_lightly, recorded_peak
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.turns import Expendable, Round, Turn, in_turns, trial, undisturbed, widened
from skyline.errors import ScriptFailed, SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.source.program import Module
from skyline.source.training_loop import loop_of
from skyline.trace.facts import Environment
from skyline.trace.record import BareTimes, CodeLine, Phase, Record, RecordKind, Trace
from skyline.trace.trial import PRODUCTS, UNCHANGED, Choices, FailedTrial, OpTiming, ProductTrial, Trial

_LEAST_BARE = 0.3
"""At least this share of a record's duration is the operator's; the rest may be overhead of the recording."""
_LEAST_SCALE, _MOST_SCALE = 0.5, 1.25
"""Bounds of the factor from the recorded time of a part to its time without recording."""
_Place = tuple[Phase, str, str, int]
"""Phase, module and name of an operator, and its number among the operators that share them in an iteration."""


def operator_times(
    traces: Sequence[Trace], bare: BareTimes
) -> tuple[tuple[OpTiming, ...], dict[Phase, float]]:
    """The operators of a typical iteration with their times, and Python's time between them by phase.

    ``traces`` are recorded iterations, ``bare`` iterations without recording. The time of an operator is the lower
    median over the recorded iterations, because other programs only ever slow it down. Recording adds time to each
    operator, and variants differ in their number of operators (autocast adds many small casts). Therefore the times
    in each part of the iteration are scaled to the time of that part without recording.
    """
    iterations = [_operators(trace, mark.index) for trace in traces for mark in trace.iterations]
    usual = _usual_count(iterations, bare)
    times: dict[_Place, list[float]] = {}
    python: dict[Phase, list[float]] = {}
    order: list[_Place] = []
    for operators, python_us in iterations:
        if len(operators) != usual:
            continue
        order = [place for place, _ in operators]
        for place, took_us in operators:
            times.setdefault(place, []).append(took_us)
        for phase, took_us in python_us.items():
            python.setdefault(phase, []).append(took_us)
    took = [(place, median_low(times[place])) for place in order]
    between = {phase: median_low(each) for phase, each in python.items()}
    scales = _scales(took, between, bare)
    return (
        tuple(
            OpTiming(name, phase, module, round(scales[phase] * took_us, 2))
            for (phase, module, name, _), took_us in took
        ),
        {phase: round(scales[phase] * took_us, 2) for phase, took_us in between.items()},
    )


def _usual_count(
    iterations: Sequence[tuple[list[tuple[_Place, float]], dict[Phase, float]]], bare: BareTimes
) -> int:
    """The number of operators that most iterations have; others include an evaluation or a smaller last batch.

    If two numbers are equally frequent, it is the one whose iterations are closest to ``bare`` in time.
    """
    counts = Counter(len(operators) for operators, _ in iterations)
    most = max(counts.values())
    bare_us = 1e3 * median(bare.steps_ms) if bare.steps_ms else 0.0

    def apart(count: int) -> float:
        took_us = [
            sum(us for _, us in operators) + sum(python_us.values())
            for operators, python_us in iterations
            if len(operators) == count
        ]
        return abs(median(took_us) - bare_us)

    return min((count for count, times in counts.items() if times == most), key=apart)


def _operators(trace: Trace, iteration: int) -> tuple[list[tuple[_Place, float]], dict[Phase, float]]:
    """The operators of the script's thread in an iteration with their times, and Python's time by phase."""
    records = [one for one in trace.records if one.iteration == iteration]
    busy: Counter[str] = Counter()
    for record in records:
        busy[record.lane] += int(record.duration_us)
    lane = max(busy, key=lambda one: busy[one], default="")
    seen: Counter[tuple[Phase, str, str]] = Counter()
    operators: list[tuple[_Place, float]] = []
    python: dict[Phase, float] = {}
    for record in sorted(records, key=lambda record: record.start_us):
        if record.lane != lane:
            continue
        if record.kind is RecordKind.PYTHON:
            python[record.phase] = python.get(record.phase, 0.0) + _without_recording_us(record)
            continue
        key = (record.phase, trace.modules[record.module] if record.module >= 0 else "", record.name)
        operators.append(((*key, seen[key]), _without_recording_us(record)))
        seen[key] += 1
    return operators, python


def _without_recording_us(record: Record) -> float:
    return max(_LEAST_BARE * record.duration_us, record.duration_us - record.recording_us)


def _scales(
    took: Sequence[tuple[_Place, float]], python_us: dict[Phase, float], bare: BareTimes
) -> dict[Phase, float]:
    """By phase, the factor from recorded times to times without recording; the phases of one part share it."""
    recorded: Counter[str] = Counter()
    for (phase, *_), took_us in took:
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    for phase, took_us in python_us.items():
        recorded[_PART.get(phase, _REST)] += took_us  # type: ignore[assignment]
    bare_ms = _bare_ms(bare) if bare.steps_ms else {}
    scales = {
        part: min(_MOST_SCALE, max(_LEAST_SCALE, 1e3 * bare_ms[part] / us))
        for part, us in recorded.items()
        if us > 0 and bare_ms.get(part, 0.0) > 0
    }
    return {phase: scales.get(_PART.get(phase, _REST), 1.0) for phase in Phase}


_REST = "rest"
_PART = {Phase.DATA: "data", Phase.BACKWARD: "backward", Phase.OPTIMIZER: "optimizer"}


def _bare_ms(bare: BareTimes) -> dict[str, float]:
    """The time of each part in ms, scaled so that the parts sum to the median iteration.

    The medians of the parts may sum to another value: not all parts are slow in the same iterations.
    """
    known = {"data": bare.data_ms, "backward": bare.backward_ms, "optimizer": bare.optimizer_ms}
    rest = [step - sum(each) for step, *each in zip(bare.steps_ms, *known.values(), strict=True)]
    parts = {**{part: median(ms) for part, ms in known.items()}, _REST: median(rest)}
    together = sum(parts.values())
    whole = median(bare.steps_ms)
    return {part: ms * whole / together for part, ms in parts.items()} if together > 0 else parts


_FRAME = re.compile(r'File "(.+?)", line (\d+)')
_LEAST_ITERATIONS = 24
"""A script with fewer iterations after its warm-up ends before all configs are measured."""
_COMPILED = "torch.compile"
"""Compiled code is specific to a number of threads and a format: another config would compile it again."""
_NARROW_FORMAT = "bfloat16"
_WIDE_FORMAT = "float32"
_NARROW_FROM = "avx512f"
"""On CPUs without these instructions bfloat16 is far slower than float32."""
_TIMES, _TIMES_ON_OTHERS = 1.0, 1.8
"""Expected time relative to an unchanged iteration, on the script's own number of threads and on another one. On a
single thread it is up to twice as long."""
_FIRST_SETTLES = 4
"""Factor on the settling iterations of the first turn under autocast: the allocator needs blocks of new sizes."""
_MOST_S, _RECORDED_ROUNDS = 8.0, 2
"""Maximum seconds, unless iterations are so slow that even the smallest plan takes longer."""
_MOST_S_ELSEWHERE, _RECORDED_ROUNDS_ELSEWHERE = 2.5, 1
"""The limits at another batch size."""
_SHARE = 0.6
"""Share of the remaining budget for the script's own batch size; two other sizes get half of the rest each."""
_PEAK_TIMES = 4.0
"""Expected time of recording a peak, relative to an iteration: two iterations are recorded, with all allocations."""
_MOST_RECORDED = (2, 1)
"""Iterations recorded in a turn: two if there is time to read them, else one."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The number of rounds, and in each turn the numbers of settling (minimum), timed and recorded iterations.

    Only the turns of the first ``recorded_rounds`` are recorded: they show how the time of a config is divided among
    its operators. All turns together show the total time.
    """

    rounds: int
    settling: int
    timed: int
    recorded: int = 0
    recorded_rounds: int = 0

    @property
    def recordings(self) -> int:
        """Iterations recorded in one config."""
        return min(self.rounds, self.recorded_rounds) * self.recorded

    @property
    def iterations(self) -> int:
        """All iterations in one config."""
        return self.rounds * (self.settling + self.timed) + self.recordings

    def took_s(self, step_ms: float, base_ms: float, reading_ms: float, configs: Sequence[Choices]) -> float:
        """The time of the plan: these configs at ``step_ms`` per iteration, and the closing turns of the base.

        Reading a recorded iteration takes another ``reading_ms``.
        """
        reading = self.recordings * len(configs) * reading_ms
        closing = (self.rounds + 1) * (self.settling + self.timed) * base_ms
        settling = self.rounds * (len(configs) + 1) * WARMS_AGAIN_MS
        times = sum(_TIMES if one.threads is None else _TIMES_ON_OTHERS for one in configs)
        return (self.iterations * times * step_ms + reading + closing + settling) / 1e3


_PLANS = (
    _Plan(8, 1, 6),
    _Plan(6, 1, 4),
    _Plan(4, 1, 4),
    _Plan(4, 1, 2),
    _Plan(2, 1, 2),
    _Plan(2, 1, 1),
    _Plan(1, 1, 1),
)


def configs_wanted(run: ScriptRun) -> bool:
    """True if other configs are to be measured: on CPUs, in scripts with enough iterations."""
    ended_soon = run.ended_after is not None and run.ended_after < run.ready.warmup + _LEAST_ITERATIONS
    wanted = run.request.batch_points > 0 if run.request.trials is None else run.request.trials
    return (
        wanted and run.request.budget_s > 0 and run.facts.environment.device.kind == "cpu" and not ended_soon
    )


def configs_harmless(run: ScriptRun) -> bool:
    """True if iterations in another config neither leave lasting effects nor compile the model again."""
    alone = run.facts.world_size == 1 and run.request.side_effects == "redirect"
    return alone and _COMPILED not in run.facts.styles


@dataclass(frozen=True, slots=True)
class ConfigTrials:
    """Trials of other configs. ``products`` are tried if whole iterations cannot be."""

    trials: tuple[Trial, ...] = ()
    products: tuple[ProductTrial, ...] = ()
    failed: tuple[FailedTrial, ...] = ()


def config_trials(held: HeldRun, run: ScriptRun, budget: TrialBudget) -> ConfigTrials:
    """Trials of the unchanged script, then of the configs that could be measured; empty if none could.

    ``held`` is a run of the unchanged script. Number formats in which the script raises an exception are failed trials.
    """
    found = _plan_within(run, _configs(run), budget.left_s)
    if found is None:
        return ConfigTrials()
    most_s, plan, configs = found
    base, *variants = _turns(held, configs, run, plan)
    first, *others = _expendable([base, *variants])
    # The plan uses iteration times from earlier; on a machine that became busier there is time for fewer rounds.
    deadline = time.monotonic() + most_s
    rounds = in_turns(first, others, rounds=plan.rounds, deadline=deadline, wakes=False)
    found = [base.trial(rounds, None), *(one.trial(rounds, number) for number, one in enumerate(variants))]
    recorded = tuple(one for one in found if one.operators)
    enough = len(recorded) > 1 and recorded[0].choices == UNCHANGED
    if enough:
        peaks = {one.choices: one.peak_bytes(run, budget) for one in variants}
        recorded = tuple(replace(one, peak_bytes=peaks.get(one.choices)) for one in recorded)
    return ConfigTrials(recorded if enough else (), failed=_raised(first.failed, variants, run))


def _raised(
    failed: Mapping[str, SkylineError], variants: Sequence[_ConfigTurns], run: ScriptRun
) -> tuple[FailedTrial, ...]:
    """The number formats in which an iteration raised an exception, in the first turn already.

    Other exceptions may come from an evaluation, which a rewrite keeps in float32: autocast is on for all that runs
    in a trial. A run that took too long shows nothing.
    """
    ran = {one.choices.number_format for one in variants if one.turns}
    return tuple(
        FailedTrial(Choices(number_format=each), error.message, CodeLine(error.file, error.line))
        for each, error in failed.items()
        if each
        and each not in ran
        and isinstance(error, ScriptFailed)
        and error.file
        and _in_loop(error.traceback, run)
    )


def _in_loop(traceback: str, run: ScriptRun) -> bool:
    """True if a frame of a traceback is in the training loop. False if the loop is not known."""
    line = run.ready.loop
    if line is None:
        return False
    try:
        loop = loop_of(Module.of(run.text_of(line.file)), line.line)
    except SkylineError:
        return False
    return loop is not None and any(
        os.path.realpath(file) == os.path.realpath(line.file)
        and loop.lineno <= int(number) <= (loop.end_lineno or 0)
        for file, number in _FRAME.findall(traceback)
    )


def config_trials_elsewhere(
    base: HeldRun, held: Mapping[int, HeldRun], run: ScriptRun, own: Sequence[Trial], budget: TrialBudget
) -> tuple[Trial, ...]:
    """Trials of the configs of ``own`` at the smallest and at the largest batch size that is quick enough.

    If there is no time for all configs, only those on the script's own number of threads are tried: gains of 16 bits
    depend more on the batch size. Empty if no time is left.
    """
    size = run.batch_size or 0
    ordered = sorted(held.items())
    found: list[Trial] = []
    share_s = budget.left_s / 2
    for outermost in (
        [one for one in ordered if one[0] < size],
        [one for one in ordered if one[0] > size][::-1],
    ):
        for batch_size, other in outermost:
            most_s = min(_MOST_S_ELSEWHERE, share_s, budget.left_s)
            trials = _trials_at(batch_size, other, base, run, [one.choices for one in own], most_s)
            found += trials
            if trials:
                break
    return tuple(found)


def _trials_at(
    batch_size: int, held: HeldRun, base: HeldRun, run: ScriptRun, configs: Sequence[Choices], most_s: float
) -> list[Trial]:
    """Trials of all configs at another batch size, in turns with the unchanged script; empty if they fail."""
    reading_ms, base_ms = run.recording.reading_ms, base.typical_ms
    found = _planned(reading_ms, held.typical_ms, base_ms, most_s, _RECORDED_ROUNDS_ELSEWHERE, configs)
    if found is None:
        return []
    plan, some = found
    variants = _turns(held, [replace(one, batch_size=batch_size) for one in some], run, plan)
    (unchanged,) = _expendable(_turns(base, [UNCHANGED], run, replace(plan, recorded_rounds=0)))
    deadline = time.monotonic() + most_s
    rounds = in_turns(unchanged, _expendable(variants), rounds=plan.rounds, deadline=deadline, wakes=False)
    tried = [one.trial(rounds, number) for number, one in enumerate(variants)]
    recorded = [one for one in tried if one.operators]
    return recorded if len(recorded) > 1 and tried[0].operators else []


def _turns(held: HeldRun, configs: Sequence[Choices], run: ScriptRun, plan: _Plan) -> list[_ConfigTurns]:
    threads = run.facts.environment.intraop_threads
    return [_ConfigTurns(held, one, one.threads or threads, plan) for one in configs]


def _expendable(turns: Sequence[_ConfigTurns]) -> list[Expendable]:
    """The turns, such that turns in one number format fail together; the next one in another restarts the script."""
    failed: dict[str, SkylineError] = {}
    return [Expendable(one, one.choices.number_format, failed) for one in turns]


@dataclass(slots=True)
class _ConfigTurns:
    """The turns of a run in one config."""

    held: HeldRun
    choices: Choices
    threads: int
    plan: _Plan
    traces: list[Trace] = field(default_factory=list[Trace])
    turns: int = 0

    def turn(self) -> Turn:
        return self.held.compute(self._turn)

    def _turn(self, child: ChildProcess) -> Turn:
        plan, number_format = self.plan, self.choices.number_format
        settling = max(plan.settling, self.held.settling(plan.timed))
        settling *= _FIRST_SETTLES if number_format and not self.turns else 1
        child.send("set", threads=self.threads, number_format=number_format)
        rows = run_bare(child, settling + plan.timed)[settling:]
        if self.turns < plan.recorded_rounds:
            trace = record_lightly(child, plan.recorded)
            # A script that ends while it is recorded may have completed no iteration.
            if trace.iterations:
                self.traces.append(trace)
        self.turns += 1
        return Turn(typical_ms([row.step_ms for row in rows], self.held.cycle), rows)

    def peak_bytes(self, run: ScriptRun, budget: TrialBudget) -> int | None:
        """The peak of live tensor memory under autocast. None without autocast, or if no time is left to record it.

        The number of threads does not change it.
        """
        if not self.choices.number_format or self.choices.threads is not None or not self.turns:
            return None
        if not budget.fits((_PEAK_TIMES * self.held.typical_ms + 2 * run.recording.reading_ms) / 1e3):
            return None
        try:
            return self.held.compute(self._peak)
        except SkylineError:
            # For example, the script has no iterations left. The times count in any case.
            return None

    def _peak(self, child: ChildProcess) -> int:
        child.send("set", threads=self.threads, number_format=self.choices.number_format)
        peak = recorded_peak(child)
        child.send("set", threads=self.threads, number_format="")
        return peak

    def trial(self, rounds: Sequence[Round], variant: int | None) -> Trial:
        """The trial of this config; without operators if it was not recorded."""
        found = widened(trial(self.choices, undisturbed(rounds, variant), variant))
        if not self.traces or not found.times.steps_ms:
            return found
        operators, python_us = operator_times(self.traces, found.times)
        return replace(found, operators=operators, python_us=python_us)


def _configs(run: ScriptRun) -> list[Choices]:
    environment, settings = run.facts.environment, run.recording.settings
    own, other = environment.intraop_threads, other_threads(environment)
    formats = [""]
    autocast = settings is not None and settings.autocast
    if not autocast and _NARROW_FROM in environment.cpu_features and _has_wide_products(run.recording.trace):
        formats.append(_NARROW_FORMAT)
    threads = (None,) if other == own else (None, other)
    return [Choices(threads=each, number_format=kind) for kind in formats for each in threads]


def other_threads(environment: Environment) -> int:
    """The number of threads to try beside the script's own: one, or all cores if it uses one; on one core its own."""
    return 1 if environment.intraop_threads > 1 else environment.cpu_count


def _has_wide_products(trace: Trace) -> bool:
    return any(shape.operator in PRODUCTS and _WIDE_FORMAT in shape.dtypes for shape in trace.shapes)


def configs_take_s(run: ScriptRun, left_s: float) -> float:
    """Maximum seconds for the configs, if ``left_s`` is left for them and for other batch sizes; 0 if none is tried."""
    tried = not run.recording.trace.sampled and configs_wanted(run) and configs_harmless(run)
    found = _plan_within(run, _configs(run), left_s) if tried else None
    return found[0] if found else 0.0


def _plan_within(
    run: ScriptRun, configs: Sequence[Choices], left_s: float
) -> tuple[float, _Plan, Sequence[Choices]] | None:
    """The time for the configs at the script's own batch size in s, and the plan and the configs that fit in it.

    Slow iterations may use all that is left of the budget: no other batch size was quick enough to use part of it.
    An iteration is assumed to take as long as the last ones, since the machine may have become busy.
    """
    step_ms = run.rows.present_ms
    for most_s in (min(_MOST_S, _SHARE * left_s), left_s):
        found = _planned(run.recording.reading_ms, step_ms, step_ms, most_s, _RECORDED_ROUNDS, configs)
        if found is not None:
            return most_s, *found
    return None


def _planned(
    reading_ms: float,
    step_ms: float,
    base_ms: float,
    most_s: float,
    recorded_rounds: int,
    configs: Sequence[Choices],
) -> tuple[_Plan, Sequence[Choices]] | None:
    """A plan for all configs, else for those on the script's own number of threads; None if no two configs fit."""
    for some in (configs, [one for one in configs if one.threads is None]):
        plan = _plan(reading_ms, step_ms, base_ms, most_s, recorded_rounds, some)
        if plan is not None and len(some) > 1:
            return plan, some
    return None


def _plan(
    reading_ms: float,
    step_ms: float,
    base_ms: float,
    most_s: float,
    recorded_rounds: int,
    configs: Sequence[Choices],
) -> _Plan | None:
    """The largest plan that takes at most ``most_s``, including the time to read its recordings; None if none fits."""
    for plan in _PLANS:
        for recorded in _MOST_RECORDED:
            full = replace(plan, recorded=recorded, recorded_rounds=recorded_rounds)
            if full.took_s(step_ms, base_ms, reading_ms, configs) <= most_s:
                return full
    return None
