"""The room on a device for further runs of a script at the same time as the one that is held there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import DeviceMemoryFact

_LARGEST_CONTEXT_BYTES = 1 << 30
"""Limit where the driver does not distinguish processes: memory outside the allocator may belong to others."""
_LEAST_FRAGMENTS = 0.05
"""Other sizes are laid out in other ways: so much of what is reserved may be of no use to any tensor."""


class Sharing(Enum):
    """The way in which several runs share one device."""

    TOGETHER = "together"
    """All of them stay there."""
    RELEASING = "releasing"
    """One computes; the others stand still and keep their tensors, but not the unused memory of their allocator."""
    ALONE = "alone"
    """One at a time is there at all."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """A device as a run left it, and what the run takes there.

    ``free_bytes`` is what the driver says is free while the run is held: what other programs have is left to them.
    ``fixed_bytes`` of its tensors outlive an iteration, at most ``peak_bytes`` live in one.
    """

    free_bytes: int
    context_bytes: int
    reserved_bytes: int
    fixed_bytes: int
    peak_bytes: int
    fragments: float

    @classmethod
    def of(cls, memory: DeviceMemoryFact, fixed_bytes: int, peak_bytes: int) -> DeviceRoom:
        """The room as it was when a run was recorded."""
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
        """Bytes available to the tensors of a run that shares the device with other programs only."""
        usable = self.free_bytes + self.reserved_bytes
        return max(0, round(usable * (1 - self.fragments)))

    def sharing(self, peaks: Sequence[int]) -> Sharing:
        """The way to share the device of the held run with runs of these peaks, in bytes of tensors."""
        runs = [self._run_bytes(peak) for peak in peaks]
        if sum(runs) <= self.free_bytes:
            return Sharing.TOGETHER
        released = max(0, self.reserved_bytes - self._reserved_for(self.fixed_bytes))
        if max(runs) <= self.free_bytes + released:
            return Sharing.RELEASING
        return Sharing.ALONE

    def sharing_of_held(self, peaks: Sequence[int]) -> Sharing:
        """The same where every one of them stays at rest while another computes."""
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
