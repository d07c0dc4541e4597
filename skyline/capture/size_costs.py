"""Expected durations of trials at other batch sizes, from those of the script under the load of the machine."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.lazy_dataclass import dataclass

_TAKEN_BY_RECORDING = 5
"""Four iterations pass while the memory of two is recorded; those two are slower."""
_TURN_S = 0.3
ROUNDS = 2
"""Rounds that a size is given at least, where they can be planned."""


@dataclass(frozen=True, slots=True)
class SizeCosts:
    """Expected seconds of runs at other batch sizes, each in a process of its own.

    ``start_s`` is the time from the start of the script to its first iteration, ``warmup`` the number of iterations
    of its warm-up, ``step_s`` an iteration at ``own_size``.
    """

    own_size: int
    step_s: float
    start_s: float
    warmup: int
    starts_again: bool = False
    """True if the script has ended, so that its own run is started again too."""

    def until_turns_s(self, size: int) -> float:
        """From the start of a run to its first turn: its setup, its warm-up, and the recording of its memory."""
        return self.start_s + (self.warmup + 1 + _TAKEN_BY_RECORDING) * self.iteration_s(size)

    def rounds_s(self, sizes: Sequence[int], rounds: int) -> float:
        """So many rounds of turns, with the turns before the first one, which do not count."""
        own_s, *others_s = (
            max(_TURN_S, step_s) + step_s for step_s in map(self.iteration_s, (self.own_size, *sizes))
        )
        return (rounds + 1) * (own_s + sum(others_s)) + own_s

    def all_s(self, sizes: Sequence[int]) -> float:
        """Everything for these sizes."""
        again_s = self.until_turns_s(self.own_size) if self.starts_again else 0.0
        return again_s + sum(map(self.until_turns_s, sizes)) + self.rounds_s(sizes, ROUNDS)

    def iteration_s(self, size: int) -> float:
        """An iteration at this size."""
        # Half of an iteration is taken not to become shorter with the batch; none of it to become longer than that.
        factor = size / self.own_size
        return self.step_s * (factor if factor >= 1 else (1 + factor) / 2)
