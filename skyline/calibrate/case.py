"""One measurement: an operator, its sizes, a number format and a number of threads."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.lazy_dataclass import dataclass

SIZE_COLUMNS = (
    "b", "m", "n", "k", "rows", "cols", "cin", "cout", "ksize", "isize", "stride", "pad", "groups",
)  # fmt: skip
"""Sizes by their column names in files of measured kernels; ``groups`` is an addition, 1 if missing."""


@dataclass(frozen=True, slots=True)
class Case:
    """An operator with its sizes, as pairs of column and number. ``threads`` 0 means the current number."""

    op: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "fp32"
    threads: int = 0

    @property
    def key(self) -> tuple[str, str, int, tuple[tuple[str, int], ...]]:
        """The identity of a case."""
        return self.op, self.dtype, self.threads, tuple(sorted(self.sizes))

    def columns(self) -> dict[str, str | int]:
        """The case as a row of a file of measured kernels."""
        return {"op": self.op, "dtype": self.dtype, "threads": self.threads, **dict(self.sizes)}


def case_of(row: Mapping[str, str]) -> Case | None:
    """The case of such a row; None without an operator or with an invalid size."""
    if not row.get("op"):
        return None
    try:
        sizes = tuple((name, int(float(row[name]))) for name in SIZE_COLUMNS if row.get(name))
        threads = int(row.get("threads") or 0)
    except ValueError:
        return None
    return Case(row["op"], sizes, row.get("dtype") or "fp32", threads)
