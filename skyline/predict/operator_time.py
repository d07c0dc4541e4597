"""What a predictor of operator times is: shapes and a GPU in, times with their uncertainty out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.shape import OperatorShape


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The time of one operator on the GPU in µs, without its launch.

    ``measured`` says whether operators of its class and number format were measured on any GPU when the predictor
    was made; where they were not, the interval is wider. Operators of one ``group`` are off together.
    """

    time_us: Interval
    measured: bool
    group: str = ""


class OperatorPredictor(Protocol):
    """Says how long operators run on a GPU that is not here. Installed under ``skyline.predictors``."""

    @property
    def name(self) -> str:
        """One word, as in ``roofline``."""
        ...

    def basis(self, device: GpuSpec) -> str:
        """What the times for this GPU rest on, as the end of a sentence: 'times rest on …'."""
        ...

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape, in the same order."""
        ...
