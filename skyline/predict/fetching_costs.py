"""Cost of passing batches from worker processes to the script."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FetchingCosts:
    """Cost to the script of batches from other processes; measured by ``benchmarks/simulator_loader.py``.

    The defaults were measured on a virtual machine with two cores of an AMD EPYC and PyTorch 2.13. No trace
    that predictions are compared with comes from this machine.
    """

    taking_us: float = 850.0
    """Time to wake up, read the message, and map the shared memory of a single tensor."""
    reading_us_per_mb: float = 80.0
    """Extra time of the first access to each page of shared memory, compared with private memory. It
    lengthens the copy to the GPU, which pageable memory passes through page by page. Pinned memory was read
    earlier by another thread."""
    returning_us_per_mb: float = 220.0
    """Time to unmap the shared memory when the batch is dropped."""
    writing_us_per_mb: float = 500.0
    """Time of the worker to put a batch into shared memory, at 2 GB/s."""
    slowdown_beside_one: float = 0.03
    """Share by which CPU work takes longer while one other core is busy: shared caches, memory and clocks."""
    taking_us_per_tensor: float = 160.0
    """Time to take each further tensor. Its file descriptor is requested over a separate connection, on which
    both sides authenticate (``multiprocessing.resource_sharer``), and the worker has to answer. The value
    lies between 210 on that EPYC and 120 on a quiet Xeon."""
    sending_us: float = 500.0
    """Time of the worker for any batch: the indices, the message, and the threads of both queues."""
    sending_us_per_tensor: float = 120.0
    """Time of the worker for each tensor: a file of shared memory, and its part in passing the descriptor on.
    160 on the EPYC, 80 on the Xeon."""

    def taken_us(self, size_bytes: float, tensors: int = 1) -> float:
        """Time of the script to take a finished batch and read it on the CPU."""
        further_us = max(0, tensors - 1) * self.taking_us_per_tensor
        return (
            self.taking_us
            + further_us
            + size_bytes / 1e6 * (self.reading_us_per_mb + self.returning_us_per_mb)
        )

    def sent_us(self, size_bytes: float, tensors: int = 1) -> float:
        """Time of the worker to pass on a finished batch."""
        return (
            self.sending_us
            + max(1, tensors) * self.sending_us_per_tensor
            + size_bytes / 1e6 * self.writing_us_per_mb
        )
