"""Expected durations of trials at other batch sizes, from the script's own times at the present load."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.lazy_dataclass import dataclass

_TAKEN_BY_RECORDING = 5
"""Time of the memory recording, in iterations: four run, and two of them are recorded and slower."""
_LONGEST_RECORDING_S = 1.5
"""Time of the memory recording above which it is left out: allocations of the script's own size predict the peak."""
_TURN_S = 0.3
_SLOW_S = 0.1
"""Time of an iteration; each turn drops its first one."""
ROUNDS = 2
"""Planned minimum number of rounds for a size."""


@dataclass(frozen=True, slots=True)
class SizeCosts:
    """Expected durations in s of runs at other batch sizes, each in its own process.

    ``start_s`` is the time from the start of the script to its first iteration, ``warmup`` the number of iterations
    of its warm-up, ``step_s`` the time of an iteration at ``own_size``.
    """

    own_size: int
    step_s: float
    start_s: float
    warmup: int
    starts_again: bool = False
    """True if the script has ended, so that its own run must be started again too."""
    always_records: bool = False
    """True on a device, whose free memory limits the batch size."""

    def until_turns_s(self, size: int) -> float:
        """The time from the start of a run to its first turn: setup, warm-up, and the recording of its memory."""
        recording = _TAKEN_BY_RECORDING if self.records_memory(size) else 0
        return self.start_s + (self.warmup + 1 + recording) * self.iteration_s(size)

    def records_memory(self, size: int) -> bool:
        """True if the memory of an iteration is recorded at this size."""
        return self.always_records or _TAKEN_BY_RECORDING * self.iteration_s(size) <= _LONGEST_RECORDING_S

    @property
    def wakes(self) -> bool:
        """True if each run has an uncounted turn before the first round; a slow iteration settles within its turn."""
        return self.step_s < _SLOW_S

    def rounds_s(self, sizes: Sequence[int], rounds: int) -> float:
        """The time of this many rounds of turns, plus the uncounted turns before the first round."""
        own_s, *others_s = (
            max(_TURN_S, step_s) + step_s for step_s in map(self.iteration_s, (self.own_size, *sizes))
        )
        return (rounds + self.wakes) * (own_s + sum(others_s)) + own_s

    def all_s(self, sizes: Sequence[int]) -> float:
        """The total time for these sizes."""
        again_s = self.until_turns_s(self.own_size) if self.starts_again else 0.0
        return again_s + sum(map(self.until_turns_s, sizes)) + self.rounds_s(sizes, ROUNDS)

    def iteration_s(self, size: int) -> float:
        """The time of an iteration at this size."""
        # Below the own size, half of the time is assumed to stay constant; above it, time is proportional to size.
        factor = size / self.own_size
        return self.step_s * (factor if factor >= 1 else (1 + factor) / 2)
