"""The actual time to read a batch of a traced script: data are read for real, only the model is not computed."""

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
