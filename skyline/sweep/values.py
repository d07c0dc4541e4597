"""The values of a setting, as typed: a range or a list."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import isfinite, log

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.number_place import AskedName, Number

MOST_VALUES = 1000
_FORMS = (
    "Write a list (64,128,256) or a range: 64:1024:64 (a step of 64), 64:1024:x2 (each twice the one before), "
    "64:1024:/8 (8 values)."
)
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Varied:
    """A setting that is asked for, with its values in ascending order."""

    asked: AskedName
    values: tuple[Number, ...]

    @property
    def name(self) -> str:
        """The name of the setting."""
        return self.asked.name

    @classmethod
    def parse(cls, text: str) -> Varied:
        """Parses ``NAME=VALUES``; raises UsageError for other text."""
        name, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise UsageError(
                f"{text!r} has no values", hint=f"Example: --vary {name or 'width'}=64:1024:64. {_FORMS}"
            )
        return cls(AskedName.parse(name), values_of(values))


def values_of(text: str) -> tuple[Number, ...]:
    """The values of a range or a list, each once, in ascending order.

    Raises:
        UsageError: it is neither, or has too many values.
    """
    if ":" not in text:
        return tuple(sorted({_number(one, text) for one in text.split(",")}))
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"{text!r} is not a range", hint=_FORMS)
    start, stop = _number(parts[0], text), _number(parts[1], text)
    if stop <= start:
        raise UsageError(
            f"{text!r} ends at its start, or before it", hint=f"The smaller value comes first. {_FORMS}"
        )
    match parts[2][0]:
        case "x":
            found = _multiplied(start, stop, _number(parts[2][1:], text), text)
        case "/":
            found = _divided(start, stop, _number(parts[2][1:], text), text)
        case _:
            found = _stepped(start, stop, _number(parts[2], text), text)
    return tuple(dict.fromkeys(found))


def combinations(varied: Iterable[Varied]) -> tuple[tuple[Number, ...], ...]:
    """Every combination of the values, in ascending order."""
    return tuple(product(*(one.values for one in varied)))


def spread_out(count: int) -> tuple[int, ...]:
    """The numbers below ``count`` in an order that covers their range early: the ends, the middle, the quarters."""
    order: list[int] = []
    step = max(1, count - 1)
    while step > 1:
        order += [*range(0, count, step), count - 1]
        step //= 2
    return tuple(dict.fromkeys((*order, *range(count))))


def _multiplied(start: Number, stop: Number, factor: Number, text: str) -> list[Number]:
    if factor <= 1 or start <= 0:
        raise UsageError(
            f"{text!r} does not grow", hint=f"Start above 0, and multiply by more than 1. {_FORMS}"
        )
    count = int(log(stop / start) / log(factor) + _TOLERANCE) + 1
    _check(count, text)
    return [_kept_whole(start * factor**index, start, stop) for index in range(count)]


def _divided(start: Number, stop: Number, count: Number, text: str) -> list[Number]:
    if count < 2 or count != int(count):
        raise UsageError(f"{text!r} has no usable number of values", hint=f"Give two or more. {_FORMS}")
    _check(int(count), text)
    width = (stop - start) / (int(count) - 1)
    return [_kept_whole(start + index * width, start, stop) for index in range(int(count))]


def _stepped(start: Number, stop: Number, step: Number, text: str) -> list[Number]:
    if step <= 0:
        raise UsageError(f"{text!r} has a step of {step}", hint=f"A step is more than 0. {_FORMS}")
    count = int((stop - start) / step + _TOLERANCE) + 1
    _check(count, text)
    values = [start + index * step for index in range(count)]
    return values if isinstance(values[-1], int) else [round(value, 12) for value in values]


def _check(count: int, text: str) -> None:
    if count > MOST_VALUES:
        raise UsageError(
            f"{text!r} has {count:,} values; {MOST_VALUES:,} are the limit", hint="Take a larger step."
        )


def _kept_whole(value: Number, start: Number, stop: Number) -> Number:
    """The value, rounded if both ends are whole numbers."""
    return round(value) if isinstance(start, int) and isinstance(stop, int) else value


def _number(text: str, whole: str) -> Number:
    text = text.strip()
    try:
        value: Number = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
    if not isfinite(value):
        raise UsageError(f"{text!r} in {whole!r} is not a number", hint=_FORMS)
    return value
