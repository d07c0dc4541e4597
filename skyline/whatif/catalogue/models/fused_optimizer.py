"""What if the optimizer updated each tensor in one pass over its memory, or all tensors with few calls."""

from __future__ import annotations

from dataclasses import replace

from skyline.errors import UsageError
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import ALL_BUT_LOADING, Part, TaskKind
from skyline.interval import ENDS, End, Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import OptimizerFact
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.traced_step import (
    HOST,
    foreach_form,
    fused,
    fused_from_foreach,
    traced_form,
    why_not_fusible,
)
from skyline.whatif.constant import Constant
from skyline.whatif.cost.optimizer_step import (
    FIXED_US,
    TRAFFIC_UNCERTAINTY,
    Update,
    fused_ms,
    moved_bytes,
    unfused_ms,
    update_of,
)
from skyline.whatif.cost.streaming import relieved
from skyline.whatif.memory import MemoryChange
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import NEEDS_PROFILE

HAS_FOREACH = frozenset({
    "Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD",
})  # fmt: skip
_HELD = {"SGD": 0.0, "Adagrad": 2.0}
"""Bytes of intermediate results held together, relative to the parameters; 1 if not listed (PyTorch's
manual).

Adagrad holds the square roots of its sums, and the gradients times the learning rate.
"""
_TENSOR_ON_CPU = Constant(
    0.55,
    0.4,
    0.8,
    "calls for a tensor among all at once over those for it alone, where operators still go tensor by tensor but not "
    "through Python: 0.45 with 600 tensors on a Xeon, 0.56 to 0.6 on an EPYC (benchmarks/foreach_calls.py)",
)
_STEP_ON_CPU = Constant.at(
    1.3, "a step besides its tensors, in units of a tensor alone: 0.9 to 2.2, benchmarks/foreach_calls.py"
)
_STEP_AT_ONCE_ON_CPU = Constant(
    2.5,
    1.9,
    3.6,
    "a step for all tensors at once besides these: it groups them in Python, benchmarks/foreach_calls.py",
)
CALLS_ON_GPU = (0.1, 0.05, 0.3)
"""Ratio of calls for all tensors at once to calls for each: about ten calls for 30 to 100 tensors instead of
ten for each."""


def foreach_ms(baseline: Subject, chosen: tuple[OptimizerFact, ...]) -> Interval:
    """The optimizer time on a CPU, in ms, if the chosen optimizers step all their tensors at once."""
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    weights = {
        id(fact): fact.tensor_count * max(1, fact.steps_per_iteration) for fact in baseline.script.optimizers
    }
    whole = sum(weights.values()) or 1
    share = sum(weights[id(fact)] for fact in chosen) / whole
    traffic_ms = baseline.step.traffic_share * now_ms
    more_ms = traffic_ms * _more_traffic(baseline, chosen)
    value, low, high = (
        now_ms
        + more_ms
        - (now_ms - traffic_ms)
        * sum(weights[id(fact)] * (1.0 - _calls_left(fact.tensor_count, end)) for fact in chosen)
        / whole
        for end in ENDS
    )
    # Results that stayed in a cache are now written to memory and read again.
    return Interval(value, low - 0.1 * traffic_ms, high + 0.3 * traffic_ms * share)


def _calls_left(tensors: int, end: End) -> float:
    """The ratio of a step's call time for all tensors at once to that for one after another, on a CPU.

    Grouping the tensors takes time as well: two tensors gain nothing.
    """
    at_once = getattr(_STEP_AT_ONCE_ON_CPU, end) + getattr(_TENSOR_ON_CPU, end) * tensors
    return at_once / (_STEP_ON_CPU.value + tensors)


def _more_traffic(baseline: Subject, chosen: tuple[OptimizerFact, ...]) -> float:
    """The additional traffic of the chosen optimizers, relative to the present traffic of all optimizers."""
    return more_bytes(chosen) / (sum(map(moved_bytes, baseline.script.optimizers)) or 1)


def more_bytes(chosen: tuple[OptimizerFact, ...]) -> float:
    """Additional bytes that the chosen optimizers move in an iteration, for all tensors at once."""
    known = [(fact, update) for fact in chosen if (update := update_of(fact)) is not None]
    return sum(moved_bytes(fact) * (update.foreach_factor - 1) for fact, update in known)


def temporary_bytes(chosen: tuple[OptimizerFact, ...]) -> float:
    """The bytes that the steps hold at once for all tensors together, in float32."""
    return max(4.0 * fact.parameter_count * _HELD.get(fact.name, 1.0) for fact in chosen)


def step_memory(baseline: Subject, temporary: float) -> MemoryChange | None:
    """The change of memory if optimizer steps take ``temporary`` bytes of temporary memory; None if that is unknown."""
    if baseline.levels is None or any(
        update_of(fact) is None for fact in baseline.script.optimizers if not temporary
    ):
        return None
    return lambda memory: memory.changed(lambda levels: levels.with_step(temporary))


_FUSED_ON_CPU_SINCE = (2, 4)
FOREACH = "foreach"


@dataclass(frozen=True, slots=True)
class FusedOptimizer(UsualWhatIf):
    """Replaces the operators of the optimizer step by one pass, whose cost follows from the bytes it moves.

    With the value ``foreach``, the operators stay, but are called for all tensors at once.
    """

    name: str = "fused_optimizer"
    training_only: bool = True
    stage: Stage = Stage.OPTIMIZER
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """The change in a few words."""
        if value == FOREACH:
            return "optimizer step for all tensors at once (foreach=True)"
        return "fused optimizer step (fused=True)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to a PyTorch optimizer that has a fused form and does not use it."""
        if subject.recording is not None:
            reason = why_not_fusible(subject.recording)
            return Applicability.no(reason) if reason else Applicability(True)
        baseline = subject
        if not baseline.script.optimizers:
            return Applicability.no("no PyTorch optimizer takes the step")
        if not baseline.on_gpu and _torch_version(baseline) < _FUSED_ON_CPU_SINCE:
            return Applicability.no(
                f"PyTorch {baseline.script.environment.torch} has no fused form on the CPU"
            )
        values = tuple(
            value for value, found in (("", unfused(baseline)), (FOREACH, one_by_one(baseline))) if found
        )
        if not values:
            return Applicability.no(_why_none(baseline.script.optimizers))
        if baseline.phases.optimizer <= 0:
            return Applicability.no("the optimizer step takes no measurable time")
        return Applicability(True, values=values if FOREACH in values else (), default=values[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the optimizer's tasks to the fused time; both are independent of the batch size."""
        if value not in ("", "true", "fused", FOREACH):
            hint = "Give the name without a value, or fused_optimizer=foreach."
            raise UsageError(f"fused_optimizer={value} is not possible", hint=hint)
        if subject.recording is not None:
            if value == FOREACH:
                return replace(scenario, reason=NEEDS_PROFILE)
            if (many := foreach_form(subject.recording)) is not None:
                return scenario.between(
                    subject,
                    *fused_from_foreach(subject.recording, many, scenario.graph),
                    assumptions=(
                        f"{many.calls:.0f} calls for many tensors in a step become two",
                        "kernels of the step are memory traffic, which shrinks with the bytes moved",
                    ),
                )
            form = traced_form(subject.recording)
            if form is None:
                return scenario
            return scenario.between(
                subject,
                *fused(subject.recording, form, scenario.graph),
                assumptions=(
                    f"about {form.tensors:.0f} tensors per step, inferred from the operators of the step",
                    "this version of PyTorch has a fused form of the optimizer",
                ),
            )
        baseline = subject
        if value == FOREACH and not one_by_one(baseline):
            reason = "all tensors are updated at once, or in one pass, already"
            return replace(scenario, reason=reason)
        if value != FOREACH and not unfused(baseline):
            return replace(scenario, reason=_why_none(baseline.script.optimizers))
        if baseline.on_gpu:
            return _on_gpu(scenario, baseline, all_at_once=value == FOREACH)
        if value == FOREACH:
            return _all_at_once(scenario, baseline)
        left = _parameters_left(scenario, baseline)
        predicted = fused_ms(baseline, unfused(baseline), left)
        factor = predicted.value / unfused_ms(baseline, left)
        chosen = select(scenario.graph, phase=Phase.OPTIMIZER, kind=ALL_BUT_LOADING)
        less = left * sum(
            moved_bytes(fact) * (1 - update.fused_bytes / update.unfused_bytes)
            for fact, update in unfused(baseline)
        )
        return scenario.changed(
            relieved(baseline, scale(scenario.graph, chosen, factor, gaps=True), less),
            below_ms=predicted.value - predicted.low,
            above_ms=predicted.high - predicted.value,
            assumptions=(
                "the step's time beyond its calls is memory traffic, which shrinks with the bytes moved",
                "all parameters are float32",
            ),
            memory=step_memory(baseline, 0.0),
        )


def _parameters_left(scenario: Scenario, baseline: Subject) -> float:
    """The ratio of parameters after earlier changes to now: lower with smaller layers, higher with fused runs."""
    now, then = baseline.memory, scenario.memory
    if now is None or then is None or now.parameters <= 0:
        return 1.0
    return then.parameters / now.parameters


def _on_gpu(scenario: Scenario, baseline: Subject, *, all_at_once: bool) -> Scenario:
    """The scenario on a GPU: fewer calls on the host, less traffic in the kernels."""
    graph, facts = scenario.graph, baseline.script.optimizers
    chosen = one_by_one(baseline) if all_at_once else tuple(fact for fact, _ in unfused(baseline))
    tensors, everything = (
        sum(fact.tensor_count * max(1, fact.steps_per_iteration) for fact in some) for some in (chosen, facts)
    )
    moved = sum(map(moved_bytes, facts))
    host = select(graph, phase=Phase.OPTIMIZER, kind=HOST)
    work = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.KERNEL)
    host_us, work_us = (
        float((graph.durations + graph.gaps)[some].sum()) / baseline.steps for some in (host, work)
    )
    stays = 1 - tensors / (everything or 1)
    if all_at_once:
        calls = tuple(stays + (1 - stays) * part for part in CALLS_ON_GPU)
        traffic = (1 + more_bytes(chosen) / (moved or 1),) * 3
        temporary = _parameters_left(scenario, baseline) * temporary_bytes(chosen)
    else:
        less = sum(
            moved_bytes(fact) * (1 - update.fused_bytes / update.unfused_bytes)
            for fact, update in unfused(baseline)
        )
        # The fused call groups the tensors, and counts the steps of each.
        grouped = sum(
            fact.tensor_count * update.fused_calls * baseline.step.call_share
            for fact, update in unfused(baseline)
        )
        fixed = FIXED_US * len(chosen) / (host_us or 1)
        calls = tuple(min(1.0, stays + part * (grouped + fixed)) for part in (1.0, 0.6, 1.5))
        left = 1 - less / (moved or 1)
        spec = gpu(baseline)
        least = (
            (moved - less) / (spec.bandwidth_gb_s * 1e3 * work_us) if spec is not None and work_us else 0.0
        )
        traffic = tuple(max(least, min(1.0, left * part)) for part in (1.0, *TRAFFIC_UNCERTAINTY))
        temporary = 0.0
    likely, least_graph, most = (
        scale(scale(graph, host, called, gaps=True), work, moving)
        for called, moving in zip(calls, traffic, strict=True)
    )
    return scenario.between(
        baseline,
        likely,
        least_graph,
        most,
        assumptions=(
            "kernels of the step are memory traffic, which changes with the bytes moved",
            "all parameters are float32",
        ),
        memory=step_memory(baseline, temporary),
    )


def _all_at_once(scenario: Scenario, baseline: Subject) -> Scenario:
    """The scenario with the step's operators called once for all tensors; their traffic stays."""
    chosen = one_by_one(baseline)
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    predicted = foreach_ms(baseline, chosen)
    tasks = select(scenario.graph, phase=Phase.OPTIMIZER, kind=ALL_BUT_LOADING)
    stepped = scale(scenario.graph, tasks, predicted.value / now_ms, gaps=True)
    return scenario.changed(
        relieved(baseline, stepped, -more_bytes(chosen)),
        below_ms=predicted.value - predicted.low,
        above_ms=predicted.high - predicted.value,
        assumptions=(
            "the operators move the same bytes; only their calls become fewer",
            "intermediate results of all tensors are held together for a moment",
        ),
        memory=step_memory(baseline, _parameters_left(scenario, baseline) * temporary_bytes(chosen)),
    )


def unfused(baseline: Subject) -> tuple[tuple[OptimizerFact, Update], ...]:
    """The optimizers that could be fused and are not, with the costs of their update in both forms."""
    found: list[tuple[OptimizerFact, Update]] = []
    for optimizer in baseline.script.optimizers:
        update = update_of(optimizer)
        if update is not None and not optimizer.options.get("fused") and update.saves_traffic:
            found.append((optimizer, update))
    return tuple(found)


def one_by_one(baseline: Subject) -> tuple[OptimizerFact, ...]:
    """The optimizers that could step all tensors at once but step them one by one.

    PyTorch does so by itself for tensors on a GPU, unless ``foreach=False`` is given.
    """
    return tuple(
        fact
        for fact in baseline.script.optimizers
        if fact.name in HAS_FOREACH
        and not fact.options.get("fused")
        and (
            fact.options.get("foreach") is False
            or (fact.options.get("foreach") is None and not baseline.on_gpu)
        )
        and fact.tensor_count > 1
    )


def _why_none(optimizers: tuple[OptimizerFact, ...]) -> str:
    if all(optimizer.options.get("fused") for optimizer in optimizers):
        return "the optimizer is fused already"
    names = ", ".join(
        sorted({optimizer.name for optimizer in optimizers if not optimizer.options.get("fused")})
    )
    return f"{names} has no fused form that moves fewer bytes"


def _torch_version(baseline: Subject) -> tuple[int, ...]:
    numbers = baseline.script.environment.torch.split("+")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)


WHATIF = FusedOptimizer()
