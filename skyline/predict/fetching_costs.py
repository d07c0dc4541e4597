"""Cost of passing batches from worker processes to the script."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FetchingCosts:
    """Cost to the script of batches from other processes; measured by ``benchmarks/simulator_loader.py``.

    The defaults are those of a virtual machine with two cores of an AMD EPYC and PyTorch 2.13: another machine
    than in any trace that predictions are compared with.
    """

    taking_us: float = 850.0
    """Waking up, reading the message, and mapping the shared memory of the one tensor that it names."""
    reading_us_per_mb: float = 80.0
    """The first touch of every page of it, on top of the time to read private memory: it lengthens the copy to
    the GPU, which pageable memory passes through a page at a time. Pinned memory was read before, elsewhere."""
    returning_us_per_mb: float = 220.0
    """Unmapping it when the batch is dropped."""
    writing_us_per_mb: float = 500.0
    """Time of the worker to put a batch into shared memory, at 2 GB/s."""
    slowdown_beside_one: float = 0.03
    """Share by which CPU work takes longer while one other core is busy: shared caches, memory and clocks."""
    taking_us_per_tensor: float = 160.0
    """The same for each further tensor: its file descriptor is asked for over a connection of its own, on which both
    sides prove that they belong together (``multiprocessing.resource_sharer``), and the worker has to answer. Between
    the 210 of that EPYC and the 120 of a quiet Xeon."""
    sending_us: float = 500.0
    """Time of the worker for any batch: the indices, the message, the threads of both queues."""
    sending_us_per_tensor: float = 120.0
    """For each tensor: a file of shared memory, and its side of handing the descriptor over. 160 on the EPYC, 80 on
    the Xeon."""

    def taken_us(self, size_bytes: float, tensors: int = 1) -> float:
        """Time of the script for a batch that is ready and that it reads on the CPU."""
        further_us = max(0, tensors - 1) * self.taking_us_per_tensor
        return (
            self.taking_us
            + further_us
            + size_bytes / 1e6 * (self.reading_us_per_mb + self.returning_us_per_mb)
        )

    def sent_us(self, size_bytes: float, tensors: int = 1) -> float:
        """Time of the worker to pass a batch on, without making it."""
        return (
            self.sending_us
            + max(1, tensors) * self.sending_us_per_tensor
            + size_bytes / 1e6 * self.writing_us_per_mb
        )
