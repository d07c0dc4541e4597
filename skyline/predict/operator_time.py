"""Interface of a predictor of operator times: shapes and a GPU in, times with their uncertainty out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The time of one operator on the GPU in µs, without its launch.

    ``measured`` is true if the predictor's data include operators of this class and number format on any GPU; otherwise
    the interval is wider. Errors of operators of one ``group`` are correlated.
    """

    time_us: Interval
    measured: bool
    group: str = ""


class OperatorPredictor(Protocol):
    """Predicts operator times on an absent GPU. Installed as an entry point of ``skyline.predictors``."""

    @property
    def name(self) -> str:
        """One word, such as ``roofline``."""
        ...

    def basis(self, device: GpuSpec) -> str:
        """The basis of the times for this GPU, as the end of the sentence 'times rest on …'."""
        ...

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape, in the same order."""
        ...


@runtime_checkable
class Claiming(Protocol):
    """A predictor with precedence for certain devices, such as those that it measured."""

    def claims(self, device: GpuSpec) -> bool:
        """True if this predictor suits the device better than a general one."""
        ...

    def host_cost(self, device: GpuSpec) -> HostCost | None:
        """The host's cost per operator on this device; None if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class CalibrationGain:
    """Median relative error of operator times without and with ``count`` measured ones (leave-one-out)."""

    before: float
    after: float
    count: int


@runtime_checkable
class Calibrating(Protocol):
    """A predictor that quantifies the benefit of measurements of a device."""

    def gain(self, device: GpuSpec) -> CalibrationGain | None:
        """The benefit of the measurements. None if the device was not measured."""
        ...


def host_cost(predictor: OperatorPredictor, device: GpuSpec) -> HostCost:
    """The predictor's host costs for the device, else typical ones."""
    own = predictor.host_cost(device) if isinstance(predictor, Claiming) else None
    return own or HostCost()


@dataclass(frozen=True, slots=True)
class TileUse:
    """The use of a GPU by a product, whose tiles the multiprocessors compute in waves.

    ``filled`` is the share of the tiles that belongs to the result. ``busy`` is the share of the
    multiprocessors' time during which they compute a tile.
    """

    filled: float
    busy: float


@runtime_checkable
class Tiling(Protocol):
    """A predictor that models tiles."""

    def tile_use(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[TileUse | None]:
        """The use by each shape, in the same order. None for operators that are not products."""
        ...
