"""The constants of the formulas, each with its range and where it comes from."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from skyline.whatif.constant import Constant


@cache
def table() -> dict[str, Constant]:
    """All constants by name."""
    text = files("skyline_predictors.mixed").joinpath("constants.json").read_bytes()
    read = msgspec.json.decode(text, type=dict[str, tuple[float, float, float, str]])
    return {name: Constant(*one) for name, one in read.items()}


@cache
def values() -> dict[str, float]:
    """Their values."""
    return {name: one.value for name, one in table().items()}


@cache
def spreads() -> dict[str, float]:
    """By kind of call, the standard deviation of the logarithm of a step's share over what was predicted."""
    text = files("skyline_predictors.mixed").joinpath("spreads.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, float])
