"""Data loading of a traced script: batches read in the script's own process, or by its loader's workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skyline.interval import Interval
from skyline.predict.fetching_costs import FetchingCosts
from skyline.trace.profile import Profile
from skyline.units import format_ms

_READ = (0.6, 1.6)
"""Assumed factor between the times of reading the same data twice."""
_COSTS = FetchingCosts()


@dataclass(frozen=True, slots=True)
class Loading:
    """The batches of one iteration: the time of one process to read them, and the processes that do.

    With workers, each has a core of its own, since the processor of the machine with the GPU is unknown.
    """

    read_us: float
    workers: int
    tensor_bytes: tuple[int, ...]
    batches: int

    @classmethod
    def of(cls, traced: Profile, *, in_workers: bool) -> Loading | None:
        """The loading of a traced script; None if no batch of the iteration was timed.

        Without ``in_workers`` the script's own process reads them, whatever its loader asks for.
        """
        if not traced.timed_reads:
            return None
        loader = max(traced.loaders, key=lambda one: one.fetches_per_iteration, default=None)
        reads = traced.timed_reads
        return cls(
            sum(read.took_us for read in reads),
            loader.num_workers if in_workers and loader is not None else 0,
            tuple(size for read in reads for size in read.tensor_bytes),
            max(1, sum(bool(read.tensor_bytes) for read in reads)),
        )

    @property
    def basis(self) -> str:
        """Where the time comes from, as a sentence."""
        whole = f"{self.batches} batches" if self.batches > 1 else "a batch"
        read = f"Data loading: one process of this machine reads {whole} in {format_ms(self.read_us / 1e3)}, timed here"
        if self.workers == 0:
            return f"{read}; the script's own process does it."
        if self.workers == 1:
            return f"{read}; the DataLoader's worker does it."
        return f"{read}; the DataLoader's {self.workers} workers do it in turns, with a core each (assumed)."

    @property
    def taking_us(self) -> float:
        """The time of the script's thread to take the batches of an iteration from its workers."""
        return self._each(_COSTS.taken_us)

    def on_thread_us(self, rest_us: float) -> Interval:
        """Time of an iteration that the script's thread spends in its loader; ``rest_us`` is all else in it.

        A queue of batches makes an iteration as long as the slower side needs: the script, or all of its workers.
        """
        if self.workers == 0:
            return Interval(self.read_us, self.read_us * _READ[0], self.read_us * _READ[1])
        taking_us = self.taking_us
        sending_us = self._each(_COSTS.sent_us)

        def waited(factor: float) -> float:
            made_us = (self.read_us * factor + sending_us) / self.workers
            return max(taking_us, made_us - rest_us)

        return Interval(waited(1.0), waited(_READ[0]), waited(_READ[1]))

    def _each(self, cost: Callable[[float, int], float]) -> float:
        tensors = len(self.tensor_bytes) / self.batches
        return self.batches * cost(sum(self.tensor_bytes) / self.batches, round(tensors))
