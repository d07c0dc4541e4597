"""SKY204: compiled code is split into several graphs with Python between them."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import CallFact
from skyline.units import plural
from skyline.whatif.subject import Subject

_LINES = 6


@dataclass(frozen=True, slots=True)
class GraphBreaks:
    """``torch.compile`` reported graph breaks."""

    code: str = "SKY204"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the first graph break; the costs are unknown."""
        if subject.profile is None:
            return None
        breaks = [call for call in subject.profile.calls if call.name == "graph break"]
        if not breaks:
            return None
        placed = [call for call in breaks if call.line is not None]
        many = plural(len(breaks), "place")
        return Finding.at(
            self.code,
            f"torch.compile breaks the graph at {many}: {_reason(breaks[0])}",
            placed[0].line if placed else None,
            0.0,
            None,
            tuple(Evidence.at(_reason(call), call.line) for call in breaks[:_LINES]),
        )


def _reason(call: CallFact) -> str:
    return str(call.options.get("reason") or "PyTorch gives no reason")


RULE = GraphBreaks()
