"""The free memory on a device for further runs of a script while one run is held there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import DeviceMemoryFact

_LARGEST_CONTEXT_BYTES = 1 << 30
"""Upper limit, because some drivers do not distinguish processes: memory outside the allocator may be of others."""
_LEAST_FRAGMENTS = 0.05
"""Minimum share of reserved memory that no tensor can use: other batch sizes lead to other memory layouts."""


class Sharing(Enum):
    """The ways to share one device among several runs."""

    TOGETHER = "together"
    """All of them stay on the device."""
    RELEASING = "releasing"
    """One computes; the others rest and keep their tensors, but release the unused memory of their allocator."""
    ALONE = "alone"
    """Only one at a time is on the device."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """The free memory of a device while a run is held there, and the memory that the run uses.

    ``free_bytes`` is the free memory that the driver reports while the run is held, without memory of other programs.
    ``fixed_bytes`` is the size of tensors that outlive an iteration, ``peak_bytes`` the peak within an iteration.
    """

    free_bytes: int
    context_bytes: int
    reserved_bytes: int
    fixed_bytes: int
    peak_bytes: int
    fragments: float

    @classmethod
    def of(cls, memory: DeviceMemoryFact, fixed_bytes: int, peak_bytes: int) -> DeviceRoom:
        """The room at the time when a run was recorded."""
        lost = 1 - memory.allocated_peak_bytes / memory.reserved_bytes if memory.reserved_bytes else 0.0
        return cls(
            free_bytes=memory.free_bytes,
            context_bytes=min(memory.context_bytes, _LARGEST_CONTEXT_BYTES),
            reserved_bytes=memory.reserved_bytes,
            fixed_bytes=fixed_bytes,
            peak_bytes=peak_bytes,
            fragments=min(0.5, max(_LEAST_FRAGMENTS, lost)),
        )

    @property
    def tensor_bytes(self) -> int:
        """Bytes available to the tensors of one run, if no other run is on the device."""
        usable = self.free_bytes + self.reserved_bytes
        return max(0, round(usable * (1 - self.fragments)))

    def sharing(self, peaks: Sequence[int]) -> Sharing:
        """The way to share the device between the held run and runs with these peaks, in bytes of tensors."""
        runs = [self._run_bytes(peak) for peak in peaks]
        if sum(runs) <= self.free_bytes:
            return Sharing.TOGETHER
        released = max(0, self.reserved_bytes - self._reserved_for(self.fixed_bytes))
        if max(runs) <= self.free_bytes + released:
            return Sharing.RELEASING
        return Sharing.ALONE

    def sharing_of_held(self, peaks: Sequence[int]) -> Sharing:
        """The way to share the device if every one of these runs stays there at rest while another computes."""
        plain = self.sharing(peaks)
        if plain is not Sharing.RELEASING:
            return plain
        released = max(0, self.reserved_bytes - self._reserved_for(self.fixed_bytes))
        resting = (len(peaks) - 1) * self._run_bytes(self.fixed_bytes)
        needed = max(map(self._run_bytes, peaks)) + resting
        return Sharing.RELEASING if needed <= self.free_bytes + released else Sharing.ALONE

    def _run_bytes(self, tensor_bytes: int) -> int:
        return self.context_bytes + self._reserved_for(tensor_bytes)

    def _reserved_for(self, tensor_bytes: int) -> int:
        return round(tensor_bytes / (1 - self.fragments))
