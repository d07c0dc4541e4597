"""The calibrated figures of the memory-hierarchy model, as ``benchmarks/calibrate_hierarchy.py`` found them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from skyline_predictors.constants import Spread
from skyline_predictors.convolved import ConvolutionConstants
from skyline_predictors.memory_levels import CacheConstants
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.streamed import RowConstants
from skyline_predictors.sustained import PowerConstants
from skyline_predictors.tiled_product import TileConstants

FILE = "hierarchy.json"


class CalibrationRecord(msgspec.Struct, frozen=True):
    """What the figures were found from, and how.

    By GPU the kernels that were looked at, the hash of the data file, the day, the seed, the steps of the search and
    the mean |log(measured / predicted)| by class at its end.
    """

    rows: dict[str, int]
    data_sha256: str
    date: str
    seed: int
    steps: int
    mean_log_error: dict[str, float]


class HierarchyConstants(msgspec.Struct, frozen=True):
    """All of them.

    ``compute_share`` and ``bandwidth_share`` are the sustained shares of the stated peaks by compute capability; a
    generation without measurements takes those of ``newest``. ``convolution_factor`` is by how much the share of
    convolutions differs. ``l2_bytes_per_clock`` is what one multiprocessor draws from the second-level cache.
    ``traffic`` is how often the bytes of other operators cross the bus, where that is not once. ``beside_us`` is
    what a measurement holds beside the kernel. ``known`` is the spread on GPUs of measured generations, ``left_out``
    that on each of them when only the others were calibrated with.
    """

    cache: CacheConstants
    l2_bytes_per_clock: float
    power: PowerConstants
    compute_share: dict[str, float]
    convolution_factor: float
    bandwidth_share: dict[str, float]
    newest: str
    matrix: TileConstants
    convolution: ConvolutionConstants
    stream_overlap: float
    softmax: RowConstants
    normalization: RowConstants
    beside_us: dict[OperatorClass, float]
    known: dict[OperatorClass, Spread]
    left_out: dict[OperatorClass, Spread]
    record: CalibrationRecord


@cache
def hierarchy_constants() -> HierarchyConstants:
    """Those that ship with the package."""
    return msgspec.json.decode(
        files("skyline_predictors").joinpath(FILE).read_bytes(), type=HierarchyConstants
    )
