"""SKY402: the allocator holds a large part of the GPU's memory without any tensor in it."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import fragmentation
from skyline.units import format_bytes
from skyline.whatif.subject import Subject

_SHARE = 0.20
_OF_ALL = 0.05
"""Least share of the device's memory for a finding."""


@dataclass(frozen=True, slots=True)
class FragmentedMemory:
    """At least a fifth of the caching allocator's reserved memory was unused even at the peak."""

    code: str = "SKY402"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the training loop; the cost is memory for larger batches, not time."""
        held = None if subject.profile is None else subject.profile.device_memory
        if subject.profile is None or held is None:
            return None
        lost = held.reserved_bytes - held.allocated_peak_bytes
        if fragmentation(held) < _SHARE or lost < _OF_ALL * held.total_bytes:
            return None
        return Finding.at(
            self.code,
            f"PyTorch's allocator holds {format_bytes(lost)} that no tensor uses, {fragmentation(held):.0%} "
            "of its reserved memory",
            subject.profile.loop_line,
            0.0,
            None,
            (
                Evidence(
                    f"reserved {format_bytes(held.reserved_bytes)}, in tensors at most "
                    f"{format_bytes(held.allocated_peak_bytes)}, of {format_bytes(held.total_bytes)} in all"
                ),
            ),
        )


RULE = FragmentedMemory()
