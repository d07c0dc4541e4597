"""SKY501: the iteration waits for the exchange of gradients."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import best_cure, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.units import format_bytes
from skyline.whatif.catalogue.parallel.gradient_exchange import arrivals, joined_by
from skyline.whatif.subject import Subject

_SHARE = 0.10
"""Threshold of the TensorBoard plug-in: communication above 10 % of the step (``torch_tb_profiler``, ``data.py``)."""
_EXACT = ("gradient_as_bucket_view", "static_graph", "ddp_bucket")
_ROUNDED = ("ddp_compression",)


@dataclass(frozen=True, slots=True)
class CommunicationBound:
    """More than a tenth of the critical path is collectives that no other work hides."""

    code: str = "SKY501"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line that wraps the model; the cost is all time spent waiting for collectives."""
        total_ms, share = step_ms(subject), _share(subject)
        if share <= _SHARE:
            return None
        told = None if subject.profile is None else subject.profile.parallel
        evidence = [
            Evidence("this includes waiting for ranks that arrive later: skyline ranks shows both separately")
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
    """The share of the iteration in communication that neither other GPU work nor host work hides."""
    if subject.on_gpu:
        return subject.critical_path.gpu_communication
    if subject.profile is None or subject.iteration_ms.value <= 0:
        return 0.0
    # On a CPU the exchange is visible only as a wait at the end of the backward pass.
    waits_us = [one.waited_us for one in arrivals(subject, subject.operators)] if joined_by(subject) else []
    waited_ms = sum(waits_us) / 1e3 / len(waits_us) if waits_us else 0.0
    return max(waited_ms, subject.phases.communication) / subject.iteration_ms.value


RULE = CommunicationBound()
