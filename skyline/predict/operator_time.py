"""What a predictor of operator times is: shapes and a GPU in, times with their uncertainty out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
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


@runtime_checkable
class Claiming(Protocol):
    """A predictor that is asked before all others about the devices that it claims, as those that it measured."""

    def claims(self, device: GpuSpec) -> bool:
        """Whether it knows this device better than a predictor for any device does."""
        ...

    def host_cost(self, device: GpuSpec) -> HostCost | None:
        """What the host of this device spends on an operator; None where that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class CalibrationGain:
    """Median relative error of operator times without and with ``count`` measured ones, each left out in turn."""

    before: float
    after: float
    count: int


@runtime_checkable
class Calibrating(Protocol):
    """A predictor that tells what measurements of a device are worth."""

    def gain(self, device: GpuSpec) -> CalibrationGain | None:
        """None where the device was not measured."""
        ...


def host_cost(predictor: OperatorPredictor, device: GpuSpec) -> HostCost:
    """What the predictor knows of the host's costs, else typical ones."""
    own = predictor.host_cost(device) if isinstance(predictor, Claiming) else None
    return own or HostCost()
