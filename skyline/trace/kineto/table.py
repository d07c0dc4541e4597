"""Tables of repeated values: every text is stored once, and rows hold its number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.trace.kineto.event import NOTHING

_GREATEST = 2**63 - 1


class Strings:
    """Texts by number; number 0 is the empty text."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}
        self._json: dict[bytes, int] = {b"": 0}

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The number of each text; new texts get the next number."""
        if not any(texts):
            return np.zeros(len(texts), np.int32)
        known = self._number
        for text in set(texts).difference(known):
            known[text] = len(known)
        return np.fromiter(map(known.__getitem__, texts), np.int32, len(texts))

    def numbers_of_json(self, values: Iterable[msgspec.Raw]) -> NDArray[np.int32]:
        """The number of each JSON value, as text."""
        known = self._json
        found: list[int] = []
        for value in values:
            if value is NOTHING:
                found.append(0)
                continue
            text = bytes(value)
            number = known.get(text)
            if number is None:
                plain = text.decode("utf-8", "replace").strip('"')
                number = known[text] = self._number.setdefault(plain, len(self._number))
            found.append(number)
        return np.array(found, np.int32)

    def all(self) -> tuple[str, ...]:
        """Every text, by number."""
        return tuple(self._number)


def integers(values: Sequence[int]) -> NDArray[np.int64]:
    """Convert to 64-bit integers; larger values become 0."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return np.array([value if -_GREATEST <= value <= _GREATEST else 0 for value in values], np.int64)


def chosen(where: NDArray[np.bool_]) -> list[int]:
    """The rows at which a condition holds."""
    return np.flatnonzero(where).tolist()


def small(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Convert to 32-bit integers. Larger ones (handles instead of counted ids) get new numbers from 2^30 on."""
    strange = (values > 2**30 - 1) | (values < -(2**30))
    if strange.any():
        _, numbers = np.unique(values[strange], return_inverse=True)
        values = np.array(values)
        values[strange] = numbers + 2**30
    return values.astype(np.int32)
