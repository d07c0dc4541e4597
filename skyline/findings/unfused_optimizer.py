"""SKY301: the optimizer goes over the parameters many times where once would do."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.findings.base import Finding
from skyline.graph.part import Part
from skyline.whatif.baseline import Baseline
from skyline.whatif.catalogue.fused_optimizer import WHATIF, unfused
from skyline.whatif.cost.optimizer_step import fused_ms

_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class UnfusedOptimizer:
    """More than a twentieth of the iteration goes into an optimizer step that has a fused form."""

    code: str = "SKY301"

    def check(self, baseline: Baseline) -> Finding | None:
        """Points at the optimizer's construction; costs what the fused form would save."""
        if not WHATIF.detect(baseline).applicable:
            return None
        now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
        total_ms = baseline.iteration_ms.value
        if now_ms <= _SHARE * total_ms:
            return None
        candidates = unfused(baseline)
        saved_ms = now_ms - fused_ms(baseline, candidates).value
        if saved_ms <= 0:
            return None
        place = next((fact.created_line or fact.step_line for fact, _ in candidates), None)
        names = ", ".join(sorted({fact.name for fact, _ in candidates}))
        return Finding(
            self.code,
            f"{now_ms / total_ms:.0%} of the iteration is {names} updating tensor by tensor; it has a fused form",
            place.file if place else "",
            place.line if place else 0,
            saved_ms,
            WHATIF.name,
        )


RULE = UnfusedOptimizer()
