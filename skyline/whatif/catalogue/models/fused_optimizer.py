"""What if the optimizer updated each tensor in one pass over its memory, or all tensors with few calls."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skyline.errors import UsageError
from skyline.graph.part import Part
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import OptimizerFact
from skyline.trace.phase import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.foreach_step import (
    HAS_FOREACH,
    foreach_ms,
    more_bytes,
    step_memory,
    temporary_bytes,
)
from skyline.whatif.catalogue.models.traced_step import fused, traced_form, why_not_fusible
from skyline.whatif.cost.optimizer_step import Update, fused_ms, moved_bytes, update_of
from skyline.whatif.cost.streaming import relieved
from skyline.whatif.subject import NEEDS_PROFILE

_FUSED_ON_CPU_SINCE = (2, 4)
FOREACH = "foreach"
_ALL_BUT_LOADING = tuple(kind for kind in TaskKind if kind is not TaskKind.DATA)


@dataclass(frozen=True, slots=True)
class FusedOptimizer(UsualWhatIf):
    """Replaces the operators of the optimizer step by one pass, costed by the bytes it moves.

    With the value ``foreach`` they stay, called for all tensors at once.
    """

    name: str = "fused_optimizer"
    stage: Stage = Stage.OPTIMIZER
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        if value == FOREACH:
            return "optimizer step for all tensors at once (foreach=True)"
        return "fused optimizer step (fused=True)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to an optimizer of PyTorch's own that has a fused form and does not use it."""
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
        """Scale the optimizer's tasks to the fused time; the batch size leaves both as they are."""
        if value not in ("", "true", "fused", FOREACH):
            hint = "Give the name alone, or fused_optimizer=foreach."
            raise UsageError(f"fused_optimizer={value} is not possible", hint=hint)
        if subject.recording is not None:
            form = traced_form(subject.recording)
            if value == FOREACH:
                return replace(scenario, reason=NEEDS_PROFILE)
            if form is None:
                return scenario
            return scenario.between(
                subject,
                *fused(subject.recording, form, scenario.graph),
                assumptions=(
                    f"about {form.tensors:.0f} tensors per step, told by the operators of the step",
                    "this version of PyTorch has a fused form of the optimizer",
                ),
            )
        baseline = subject
        now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
        if value == FOREACH:
            return _all_at_once(scenario, baseline)
        if not unfused(baseline):
            return replace(scenario, reason=_why_none(baseline.script.optimizers))
        predicted = fused_ms(baseline, unfused(baseline))
        factor = predicted.value / now_ms
        chosen = select(scenario.graph, phase=Phase.OPTIMIZER, kind=_ALL_BUT_LOADING)
        less = sum(
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


def _all_at_once(scenario: Scenario, baseline: Subject) -> Scenario:
    """The step's operators are called once for all tensors; what they move stays."""
    chosen = one_by_one(baseline)
    if not chosen:
        return replace(scenario, reason="the optimizer steps all tensors at once, or in one pass, already")
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    predicted = foreach_ms(baseline, chosen)
    tasks = select(scenario.graph, phase=Phase.OPTIMIZER, kind=_ALL_BUT_LOADING)
    stepped = scale(scenario.graph, tasks, predicted.value / now_ms, gaps=True)
    return scenario.changed(
        relieved(baseline, stepped, -more_bytes(chosen)),
        below_ms=predicted.value - predicted.low,
        above_ms=predicted.high - predicted.value,
        assumptions=(
            "the operators move what they did; only their calls become fewer",
            "intermediate results of all tensors are held together for a moment",
        ),
        memory=step_memory(baseline, temporary_bytes(chosen)),
    )


def unfused(baseline: Subject) -> tuple[tuple[OptimizerFact, Update], ...]:
    """The optimizers that could be fused and are not, with what their update costs now and then."""
    found: list[tuple[OptimizerFact, Update]] = []
    for optimizer in baseline.script.optimizers:
        update = update_of(optimizer)
        if update is not None and not optimizer.options.get("fused") and update.saves_traffic:
            found.append((optimizer, update))
    return tuple(found)


def one_by_one(baseline: Subject) -> tuple[OptimizerFact, ...]:
    """The optimizers that could step all tensors at once and step them one by one.

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
