"""What loaders of a traced script read: the actual time of a batch (only the model is not computed), and repeats."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedRead:
    """The share of one line in the time to read a batch, between two moments of the trace's nominal time.

    ``took_us`` is the median time of the loader's batches of this size, read without tracing in the script's own
    process, times the share of the samples of the thread on that line. The first read of a batch has the bytes of its
    tensors as ``tensor_bytes``.
    """

    start_us: float
    end_us: float
    took_us: float
    tensor_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """A read by a loader between two moments of the trace's nominal time.

    ``times`` is the number of delivered samples per sample read.
    """

    start_us: float
    end_us: float
    times: float
