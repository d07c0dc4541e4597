"""The shares of their data-sheet peaks that GPUs reach, found by ``benchmarks/calibrate_roofline.py``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from skyline_predictors.matrix_time import MatrixConstants
from skyline_predictors.operator_class import OperatorClass

FILE = "roofline.json"


class Spread(msgspec.Struct, frozen=True):
    """Nine in ten measured times lie between these multiples of the predicted one, on the worst of the GPUs."""

    low: float
    high: float


class Constants(msgspec.Struct, frozen=True):
    """The calibrated figures.

    ``compute_share``, ``convolution_share`` and ``bandwidth_share`` are the sustained shares of the stated
    peaks by compute capability. A capability without measurements takes the shares of ``newest``. ``traffic``
    is, by class, how often the bytes of an operator cross the memory bus; ``long_softmax_traffic`` is the
    same for softmax over rows too long for registers. ``overhead_us`` is the part of the measurements outside
    the kernel; predictions omit it. ``known`` is the spread by class on the measured GPUs. ``left_out`` is
    the spread on each of them when only the others were used for calibration.
    """

    matrix: MatrixConstants
    convolution: MatrixConstants
    compute_share: dict[str, float]
    convolution_share: dict[str, float]
    bandwidth_share: dict[str, float]
    newest: str
    traffic: dict[OperatorClass, float]
    long_softmax_traffic: float
    overhead_us: dict[OperatorClass, float]
    known: dict[OperatorClass, Spread]
    left_out: dict[OperatorClass, Spread]


@cache
def constants() -> Constants:
    """The constants that ship with the package."""
    return msgspec.json.decode(files("skyline_predictors").joinpath(FILE).read_bytes(), type=Constants)
