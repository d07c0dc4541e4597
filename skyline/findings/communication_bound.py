"""SKY501: the iteration waits for gradients to be exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.findings.base import Evidence, Finding
from skyline.findings.bounds import bounds
from skyline.findings.gain import best_cure, step_ms
from skyline.units import format_bytes
from skyline.whatif.catalogue.parallel.gradient_exchange import arrivals, joined_by
from skyline.whatif.subject import Subject

_SHARE = 0.10
"""Of the plug-in for TensorBoard: communication above 10 % of the step (``torch_tb_profiler``, ``data.py``)."""
_EXACT = ("gradient_as_bucket_view", "static_graph", "ddp_bucket")
_ROUNDED = ("ddp_compression",)


@dataclass(frozen=True, slots=True)
class CommunicationBound:
    """Collectives that nothing hides are more than a tenth of what the iteration waits for."""

    code: str = "SKY501"

    def check(self, subject: Subject) -> Finding | None:
        """Points at where the model is wrapped; costs all the time for which collectives are waited for."""
        total_ms, share = step_ms(subject), _share(subject)
        if share <= _SHARE:
            return None
        told = None if subject.profile is None else subject.profile.parallel
        evidence = [
            Evidence("in it is the waiting for ranks that come later: skyline ranks tells them apart")
        ]
        if told is not None:
            evidence.append(
                Evidence.at(
                    f"{told.name} over {told.backend or 'an unknown backend'} exchanges "
                    f"{format_bytes(told.gradient_bytes)} of gradients among {told.world_size} ranks",
                    told.created_line,
                )
            )
        cure, _ = best_cure(subject, _EXACT)
        if cure is None:
            cure, _ = best_cure(subject, _ROUNDED)
        unit = "a step" if subject.profile is None else "the iteration"
        return Finding.at(
            self.code,
            f"{share:.0%} of {unit} is waiting for communication between processes",
            told.created_line if told is not None else None,
            share * total_ms,
            cure,
            tuple(evidence),
        )


def _share(subject: Subject) -> float:
    """Of the iteration, what communication takes and neither the GPU's other work nor the host's hides."""
    if subject.on_gpu:
        return bounds(subject).gpu_communication
    if subject.profile is None or subject.iteration_ms.value <= 0:
        return 0.0
    # On a CPU the exchange shows as a wait at the end of the backward pass, and as nothing else.
    waits_us = [one.waited_us for one in arrivals(subject, subject.operators)] if joined_by(subject) else []
    waited_ms = sum(waits_us) / 1e3 / len(waits_us) if waits_us else 0.0
    return max(waited_ms, subject.phases.communication) / subject.iteration_ms.value


RULE = CommunicationBound()
