"""Files that ``skyline calibrate --export`` wrote on machines with a GPU, as measured kernels for training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skyline.calibrate.store import read
from skyline.errors import UsageError

_LARGE = ("linear", "bmm", "conv", "ln", "softmax")
_SMALL = ("add", "mul", "div", "relu", "gelu", "tanh", "exp", "addu", "mulu", "divu", "powu")
_OPERATORS = frozenset((*_LARGE, *_SMALL))
"""Operators that the public data have too. Their rows have the same sizes."""


def calibration_files(folder: Path) -> list[Path]:
    """The files below ``folder`` that were measured on a GPU. Other tables and processors' files are skipped."""
    found: list[Path] = []
    for path in sorted(folder.glob("**/*.csv")):
        try:
            machine, _ = read(path)
        except UsageError:
            continue
        if machine.device == "cuda":
            found.append(path)
    return found


def calibration_rows(path: Path) -> Iterator[dict[str, str]]:
    """The float32 kernels of one file with the columns of the public data.

    Raises:
        UsageError: it is no such file.
    """
    machine, measured = read(path)
    for one in measured:
        sizes = dict(one.case.sizes)
        usual = one.case.op in _OPERATORS and one.case.dtype == "fp32" and not one.case.threads
        if one.time_us is None or not usual or sizes.pop("groups", 1) != 1:
            continue
        columns = {name: str(value) for name, value in sizes.items()}
        yield {
            "op": one.case.op,
            "gpu": machine.name,
            "dtype": "fp32",
            "latency_ms": repr(one.time_us / 1e3),
            **columns,
        }
