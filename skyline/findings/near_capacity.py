"""SKY401: the peak memory is close to the capacity."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import MemoryBreakdown, bytes_at_peak, usable_bytes
from skyline.trace.record import CodeLine
from skyline.units import format_bytes, format_share
from skyline.whatif.subject import Subject

_SHARE = 0.90
"""Threshold of the TensorBoard plug-in: a peak above 90 % of the memory (``torch_tb_profiler``, ``data.py``)."""
_LINES = 4


@dataclass(frozen=True, slots=True)
class NearCapacity:
    """More than nine tenths of the memory available to tensors are in use at the peak."""

    code: str = "SKY401"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line with most memory at the peak; costs no time until memory is full."""
        usable, peak = usable_bytes(subject.script), subject.peak
        if not usable or peak.total <= _SHARE * usable:
            return None
        used, there = format_bytes(peak.total), f"{format_bytes(usable)} available to tensors"
        said = (
            f"of the {there}, {used} are in use at the peak"
            if peak.total <= usable
            else f"the peak of {used} does not fit into the {there}"
        )
        lines = _holders(subject)
        return Finding.at(
            self.code,
            f"{said} ({format_share(peak.total / usable)})",
            lines[0][0] if lines else subject.script.loop_line,
            0.0,
            "checkpointing" if peak.activations >= 0.25 * peak.total else None,
            (
                Evidence(_owners(peak)),
                *(
                    Evidence.at(f"{format_bytes(size)} live at the peak were allocated here", line)
                    for line, size in lines[:_LINES]
                ),
            ),
        )


def _holders(baseline: Subject) -> list[tuple[CodeLine, int]]:
    """The lines that allocated the memory live at the peak, largest first."""
    profile = baseline.script
    by_line = bytes_at_peak(profile.memory, profile.trace.allocations)
    known = [(profile.trace.lines[index], size) for index, size in by_line.items() if index >= 0]
    return sorted(known, key=lambda pair: -pair[1])


def _owners(peak: MemoryBreakdown) -> str:
    parts = {
        "activations": peak.activations,
        "parameters": peak.parameters,
        "gradients": peak.gradients,
        "optimizer state": peak.optimizer,
        "other": peak.other,
    }
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in ordered if size)


RULE = NearCapacity()
