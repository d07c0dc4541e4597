"""Types for numbers in ``argparse``, which refuse values that no run can use."""

from __future__ import annotations

import argparse
import math

from skyline.memory.size import FORMS, size_bytes

_MOST = 1_000_000_000
"""Upper limit of counts such as iterations, ranks and rounds, far above any real one."""
_MOST_SECONDS = 1e9
"""Upper limit of times, about thirty years: the system calls that wait overflow after some centuries."""
_MOST_GIGABYTES = 1e9
_MOST_AMOUNT = 1e18


def positive(text: str) -> int:
    """A whole number from 1."""
    return _whole(text, least=1)


def natural(text: str) -> int:
    """A whole number from 0."""
    return _whole(text, least=0)


def port(text: str) -> int:
    """A TCP port. 0 stands for any free port."""
    return _whole(text, least=0, most=65535)


def seconds(text: str) -> float:
    """A time above 0, in seconds."""
    return _amount(text, _MOST_SECONDS)


def seconds_or_none(text: str) -> float:
    """A time of at least 0, in seconds. 0 stands for none."""
    return _amount(text, _MOST_SECONDS, least=0.0)


def minutes(text: str) -> float:
    """A time above 0, in minutes."""
    return _amount(text, _MOST_SECONDS / 60)


def amount(text: str) -> float:
    """A number above 0."""
    return _amount(text, _MOST_AMOUNT)


_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    """A time above 0 with its unit, such as 90s, 5m or 1h, in seconds."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S:
        raise argparse.ArgumentTypeError(f"{_brief(text)} has no unit: write 90s, 5m or 1h")
    return _amount(number, _MOST_SECONDS / _UNITS_S[unit]) * _UNITS_S[unit]


def gigabytes(text: str) -> int:
    """A number of gigabytes above 0, in bytes."""
    return int(_amount(text, _MOST_GIGABYTES) * 1e9)


def device_memory(text: str) -> int:
    """The memory of a device in bytes, written with its unit."""
    try:
        return size_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{_brief(text)}: {error}; write {FORMS}") from None


def _whole(text: str, *, least: int, most: int = _MOST) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_brief(text)} is not a valid whole number") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"must be {least} to {most:,}")
    return value


def _amount(text: str, most: float, least: float = math.nextafter(0.0, 1.0)) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_brief(text)} is not a number") from None
    if not least <= value <= most or not math.isfinite(value):
        bound = "more than 0" if least else "0 or more"
        raise argparse.ArgumentTypeError(f"must be {bound}, and {most:,.0f} at most")
    return value


def _brief(text: str) -> str:
    return repr(text if len(text) <= 24 else f"{text[:20]}…")
