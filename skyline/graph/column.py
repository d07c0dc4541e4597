"""Columns of tasks and dependencies: read-only numpy arrays that graphs share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]

ROWS_KEPT = 50_000
"""Largest number of row objects to cache; more of them would exhaust the memory for a large graph."""

_Value = TypeVar("_Value")


class RowSequence(Sequence[_Value]):
    """Columns of equal length as a sequence of rows; the objects of a short one are cached in ``_rows``."""

    __slots__ = ()
    _rows: tuple[_Value, ...] | None

    @abstractmethod
    def _made(self, part: slice) -> Iterator[_Value]:
        """Create the rows of a part of the columns."""

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_Value, ...]: ...
    def __getitem__(self, index: int | slice) -> _Value | tuple[_Value, ...]:
        if self._rows is not None or len(self) <= ROWS_KEPT:
            return self._kept()[index]
        if isinstance(index, slice):
            return tuple(self._made(index))
        row = range(len(self))[index]
        return next(self._made(slice(row, row + 1)))

    def __iter__(self) -> Iterator[_Value]:
        return (
            iter(self._kept())
            if self._rows is not None or len(self) <= ROWS_KEPT
            else self._made(slice(None))
        )

    def _kept(self) -> tuple[_Value, ...]:
        if self._rows is None:
            object.__setattr__(self, "_rows", tuple(self._made(slice(None))))
        assert self._rows is not None
        return self._rows


def frozen(values: npt.ArrayLike, dtype: Any) -> npt.NDArray[Any]:
    """A read-only contiguous array, without a copy where possible."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def sums(groups: Ids | Indices | Codes, values: Times, count: int) -> Times:
    """The sum of the values of each of ``count`` groups."""
    return np.bincount(groups, values, count).astype(np.float64, copy=False)


def coded(values: Sequence[_Value]) -> tuple[tuple[_Value, ...], Ids]:
    """The distinct values in order of first occurrence, and the index of each value among them."""
    table: dict[_Value, int] = {}
    places = np.fromiter((table.setdefault(value, len(table)) for value in values), np.int32, len(values))
    return tuple(table), places


def joined(parts: Sequence[tuple[tuple[str, ...], Ids]]) -> tuple[tuple[str, ...], Ids]:
    """One combined table, and the concatenated columns that index it."""
    table: dict[str, int] = {}
    columns: list[Ids] = []
    for values, column in parts:
        places = np.array([table.setdefault(value, len(table)) for value in values], np.int32)
        moved = bool((places != np.arange(len(places), dtype=np.int32)).any())
        columns.append(places[column] if moved else column)
    return tuple(table), frozen(np.concatenate(columns), np.int32)


def without_unused(table: tuple[str, ...], column: Ids) -> tuple[tuple[str, ...], Ids]:
    """The table entries that a column uses, in order, and the column that indexes them."""
    used = np.bincount(column, minlength=len(table)) > 0
    if used.all():
        return table, column
    places = np.cumsum(used, dtype=np.int32) - 1
    return tuple(value for value, kept in zip(table, used.tolist(), strict=True) if kept), places[column]


def indices(chosen: Iterable[int]) -> Indices:
    """Chosen tasks as an index array, from indices or from one flag per task."""
    if not isinstance(chosen, np.ndarray):
        return np.fromiter(chosen, np.int64)
    given: npt.NDArray[Any] = chosen  # type: ignore[reportUnknownVariableType]
    return np.flatnonzero(given) if given.dtype == np.bool_ else np.asarray(given, np.int64)
