"""Trials of the script in other execution configs on a CPU: on other threads, under autocast, and both.

The same process computes some iterations in each config in turn, so that every operator is timed with the script's
own tensors in the caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skyline.capture.assemble import ScriptRun
from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess
from skyline.capture.held_run import HeldRun, typical_ms
from skyline.capture.operator_times import operator_times
from skyline.capture.recording import record_lightly
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.turns import Expendable, Round, Turn, in_turns, trial
from skyline.trace.product_trial import PRODUCTS
from skyline.trace.record import Trace
from skyline.trace.trial import UNCHANGED, Choices, Trial

_LEAST_ITERATIONS = 24
"""A script with fewer iterations after its warm-up ends before all configs are measured."""
_COMPILED = "torch.compile"
"""Compiled code is specific to a number of threads and a format: another config would compile it again."""
_NARROW_FORMAT = "bfloat16"
_WIDE_FORMAT = "float32"
_NARROW_FROM = "avx512f"
"""On CPUs without these instructions bfloat16 is far slower than float32."""
_ALL_TIMES = 5.6
"""An iteration in each of the four configs, over one of the unchanged script: up to twice on one thread."""
_CONFIGS = 4
_FIRST_SETTLES = 4
"""Factor on the settling iterations of the first turn under autocast: the allocator meets blocks of other sizes."""
_MOST_RECORDS = 60_000
"""Of all recorded iterations together: reading more takes longer than computing them."""
_LEAST_S, _MOST_S, _RECORDED_ROUNDS = 5.0, 8.0, 2
"""Seconds, at least where the budget is spent already, and at most."""
_LEAST_S_ELSEWHERE, _MOST_S_ELSEWHERE, _RECORDED_ROUNDS_ELSEWHERE = 1.5, 2.5, 1
"""The same at another batch size."""
_SHARE = 0.6
"""Share of the budget that is left for the script's own batch size; the two others have half of the rest each."""
_MOST_RECORDED = (2, 1)
"""Iterations recorded in a turn: two where the limits allow it."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The number of rounds, and of iterations in each turn that settle in, that are timed, and that are recorded.

    Only the turns of the first ``recorded_rounds`` are recorded: they show how the time of a config is divided among
    its operators, and all turns show how long it is.
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

    def took_s(self, step_ms: float, base_ms: float) -> float:
        """The time of the plan: all configs at ``step_ms`` an iteration, and the closing turns of the base."""
        closing = (self.rounds + 1) * (self.settling + self.timed) * base_ms
        return (self.iterations * _ALL_TIMES * step_ms + closing) / 1e3


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
    """True if other configs are measured: on CPUs, in scripts that go on for long enough."""
    ended_soon = run.ended_after is not None and run.ended_after < run.ready.warmup + _LEAST_ITERATIONS
    wanted = run.request.batch_points > 0 if run.request.trials is None else run.request.trials
    return (
        wanted and run.request.budget_s > 0 and run.facts.environment.device.kind == "cpu" and not ended_soon
    )


def configs_harmless(run: ScriptRun) -> bool:
    """True if iterations in another config neither leave lasting effects nor compile the model again."""
    alone = run.facts.world_size == 1 and run.request.side_effects == "redirect"
    return alone and _COMPILED not in run.facts.styles


def config_trials(held: HeldRun, run: ScriptRun, budget: TrialBudget) -> tuple[Trial, ...]:
    """The unchanged script first, then the other configs that could be measured; empty where none could.

    ``held`` is a run of the unchanged script. Formats in which the script fails are left out.
    """
    step_ms, configs = run.rows.median_ms, _configs(run)
    most_s = min(_MOST_S, max(_LEAST_S, _SHARE * budget.left_s))
    plan = _plan(run.recording.trace, step_ms, step_ms, most_s, _RECORDED_ROUNDS)
    if plan is None or len(configs) < 2:
        return ()
    base, *variants = _turns(held, configs, run, plan)
    first, *others = _expendable([base, *variants])
    rounds = in_turns(first, others, rounds=plan.rounds, wakes=False)
    found = [base.trial(rounds, None), *(one.trial(rounds, number) for number, one in enumerate(variants))]
    recorded = tuple(one for one in found if one.operators)
    return recorded if len(recorded) > 1 and recorded[0].choices == UNCHANGED else ()


def config_trials_elsewhere(
    base: HeldRun, held: Mapping[int, HeldRun], run: ScriptRun, own: Sequence[Trial], budget: TrialBudget
) -> tuple[Trial, ...]:
    """The configs of ``own`` at the smallest and at the largest batch size that is quick enough."""
    size = run.batch_size or 0
    ordered = sorted(held.items())
    found: list[Trial] = []
    most_s = min(_MOST_S_ELSEWHERE, max(_LEAST_S_ELSEWHERE, budget.left_s / 2))
    for outermost in (
        [one for one in ordered if one[0] < size],
        [one for one in ordered if one[0] > size][::-1],
    ):
        for batch_size, other in outermost:
            trials = _trials_at(batch_size, other, base, run, [one.choices for one in own], most_s)
            found += trials
            if trials:
                break
    return tuple(found)


def _trials_at(
    batch_size: int, held: HeldRun, base: HeldRun, run: ScriptRun, configs: Sequence[Choices], most_s: float
) -> list[Trial]:
    """All configs at another batch size, in turns with the unchanged script; empty where one could not be measured."""
    trace, base_ms = run.recording.trace, run.rows.median_ms
    plan = _plan(trace, held.typical_ms, base_ms, most_s, _RECORDED_ROUNDS_ELSEWHERE)
    if plan is None:
        return []
    variants = _turns(held, [replace(one, batch_size=batch_size) for one in configs], run, plan)
    (unchanged,) = _expendable(_turns(base, [UNCHANGED], run, replace(plan, recorded_rounds=0)))
    rounds = in_turns(unchanged, _expendable(variants), rounds=plan.rounds, wakes=False)
    found = [one.trial(rounds, number) for number, one in enumerate(variants)]
    return found if all(one.operators for one in found) else []


def _turns(held: HeldRun, configs: Sequence[Choices], run: ScriptRun, plan: _Plan) -> list[_ConfigTurns]:
    threads = run.facts.environment.intraop_threads
    return [_ConfigTurns(held, one, one.threads or threads, plan) for one in configs]


def _expendable(turns: Sequence[_ConfigTurns]) -> list[Expendable]:
    """Runs in one number format fail together; the next turn in another one starts the script again."""
    failed: set[str] = set()
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
        settling = plan.settling * (_FIRST_SETTLES if number_format and not self.turns else 1)
        child.send("set", threads=self.threads, number_format=number_format)
        rows = run_bare(child, settling + plan.timed)[settling:]
        if self.turns < plan.recorded_rounds:
            trace = record_lightly(child, plan.recorded)
            # A script that ends while it is recorded may have completed no iteration.
            if trace.iterations:
                self.traces.append(trace)
        self.turns += 1
        return Turn(typical_ms([row.step_ms for row in rows], self.held.cycle), rows)

    def trial(self, rounds: Sequence[Round], variant: int | None) -> Trial:
        """The trial of this config, without operators where it was not recorded."""
        found = trial(self.choices, rounds, variant)
        if not self.traces or not found.times.steps_ms:
            return found
        operators, python_us = operator_times(self.traces, found.times)
        return replace(found, operators=operators, python_us=python_us)


def _configs(run: ScriptRun) -> list[Choices]:
    environment, settings = run.facts.environment, run.recording.settings
    own = environment.intraop_threads
    other = 1 if own > 1 else environment.cpu_count
    formats = [""]
    autocast = settings is not None and settings.autocast
    if not autocast and _NARROW_FROM in environment.cpu_features and _has_wide_products(run.recording.trace):
        formats.append(_NARROW_FORMAT)
    threads = (None,) if other == own else (None, other)
    return [Choices(threads=each, number_format=kind) for kind in formats for each in threads]


def _has_wide_products(trace: Trace) -> bool:
    return any(shape.operator in PRODUCTS and _WIDE_FORMAT in shape.dtypes for shape in trace.shapes)


def _plan(trace: Trace, step_ms: float, base_ms: float, most_s: float, recorded_rounds: int) -> _Plan | None:
    """The plan with most iterations that takes no longer than that, and whose recordings can be read in time."""
    records = len(trace.records) / max(1, len(trace.iterations))
    for plan in _PLANS:
        for recorded in _MOST_RECORDED:
            full = replace(plan, recorded=recorded, recorded_rounds=recorded_rounds)
            is_short = full.took_s(step_ms, base_ms) <= most_s
            if is_short and full.recordings * _CONFIGS * records <= _MOST_RECORDS:
                return full
    return None
