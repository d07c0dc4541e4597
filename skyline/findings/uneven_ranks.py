"""SKY502: all ranks wait for one slow rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyline.findings.base import Evidence, Finding
from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms

if TYPE_CHECKING:
    from skyline.job.job import Job

_SHARE = 0.05
"""Threshold as a share of the step. SageMaker Debugger's LoadBalancing compares distributions of the workers'
utilisation (a distance of 0.5); here the step of an even job is simulated."""


@dataclass(frozen=True, slots=True)
class UnevenRanks:
    """If the slowest rank were as fast as a typical one, a step of the job would be a twentieth shorter."""

    code: str = "SKY502"

    def check_job(self, job: Job) -> Finding | None:
        """Refers to no line, because traces contain none; the cost is the saving of the even job per step."""
        if job.evened is None or job.simulated is None:
            return None
        step_ms = job.simulated.step_us / 1e3
        cost_ms = step_ms - job.evened.times.step_us / 1e3
        if step_ms <= 0 or cost_ms <= _SHARE * step_ms:
            return None
        slow, late = job.alignment.ranks[job.evened.straggler], job.late[job.evened.straggler]
        model = job.alignment.ranks[job.evened.model]
        return Finding.at(
            self.code,
            f"rank {slow.rank} keeps the others waiting: if it were as fast as rank {model.rank}, a step would be "
            f"{cost_ms / step_ms:.0%} shorter",
            None,
            cost_ms,
            None,
            (
                Evidence(
                    f"it arrives last at {late.last} of {late.of} collectives, "
                    f"{format_ms(late.behind_us / 1e3 / max(1, len(slow.step_number)))} per step behind"
                ),
            ),
        )


JOB_RULE = UnevenRanks()
