"""SKY301: the optimizer passes over the parameters many times instead of once."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.graph.task import Part
from skyline.lazy_dataclass import dataclass
from skyline.whatif.catalogue.models.fused_optimizer import WHATIF, one_by_one, unfused
from skyline.whatif.cost.optimizer_step import fused_ms
from skyline.whatif.recording import Recording, optimizer_names
from skyline.whatif.subject import Subject

_SHARE = 0.05
_SAVED = 0.01
"""Threshold as a share of the iteration: with other work on the GPU, the step may cost no waiting time."""


@dataclass(frozen=True, slots=True)
class UnfusedOptimizer:
    """More than a twentieth of the iteration is an optimizer step that has a fused form."""

    code: str = "SKY301"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the construction of the optimizer; the cost is the saving of the fused form."""
        if subject.recording is not None:
            return self._of_trace(subject, subject.recording)
        if not WHATIF.detect(subject).applicable:
            return None
        now_ms = subject.parts_ms[Part.OPTIMIZER] or subject.phases.optimizer
        total_ms = subject.iteration_ms.value
        candidates = unfused(subject)
        if now_ms <= _SHARE * total_ms or not candidates:
            return None
        # With a GPU the step's own time is host time, which may be off the critical path.
        saved = (
            saved_ms(subject, WHATIF.name) if subject.on_gpu else now_ms - fused_ms(subject, candidates).value
        )
        if saved <= _SAVED * total_ms:
            return None
        facts = [fact for fact, _ in candidates]
        place = next((fact.created_line or fact.step_line for fact in facts), None)
        names = ", ".join(sorted({fact.name for fact in facts}))
        way = "tensor by tensor" if one_by_one(subject) else "operator by operator"
        return Finding.at(
            self.code,
            f"{now_ms / total_ms:.0%} of the iteration is {names} updating {way}; a fused form exists",
            place,
            saved,
            WHATIF.name,
            tuple(
                Evidence.at(
                    f"{fact.name} updates {fact.tensor_count:,} tensors, {fact.parameter_count:,} parameters",
                    fact.step_line,
                )
                for fact in facts
            ),
        )

    def _of_trace(self, subject: Subject, recording: Recording) -> Finding | None:
        cost_ms = saved_ms(subject, WHATIF.name)
        if cost_ms <= _SHARE * step_ms(subject):
            return None
        names = ", ".join(optimizer_names(recording))
        title = f"{names} updates tensor by tensor; its fused form would take {cost_ms / step_ms(subject):.0%} less"
        return Finding.at(self.code, f"{title} of a step", None, cost_ms, WHATIF.name)


RULE = UnfusedOptimizer()
