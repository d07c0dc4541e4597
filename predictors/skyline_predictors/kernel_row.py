"""Rows of measured kernels as operator shapes, which predictors take."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from skyline.errors import UsageError
from skyline.trace.record import OperatorShape

FLOAT = "float32"
_FORMATS = {"fp32": FLOAT, "fp16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "fp64": "float64"}
_BYTES = {FLOAT: 4, "float16": 2, "bfloat16": 2, "tfloat32": 4, "float64": 8}
_BINARY = frozenset({"add", "mul", "div", "pow"})
_OPERATORS = {
    "ln": "native_layer_norm",
    "softmax": "_softmax",
    "conv": "convolution",
    "linear": "addmm",
    "addu": "add",
    "mulu": "mul",
    "divu": "div",
    "powu": "pow",
}
"""PyTorch's names for the data's words where they differ. A final u marks an operator with a number as second
operand."""

Row = Mapping[str, object]


def shape_of(row: Row) -> OperatorShape:
    """The operator of one row. Columns that the operator does not need may be missing or empty.

    Raises:
        UsageError: a column that the operator needs is missing or no size, or its number format is not known.
    """
    op = str(row.get("op", "")).strip()
    if not op:
        raise UsageError("a row names no operator", hint="Its column is called op.")
    written = str(row.get("dtype") or FLOAT).lower()
    number_format = written if written in _BYTES else _FORMATS.get(written, "")
    if not number_format:
        raise UsageError(
            f"a row of {op!r} is in the number format {written!r}, which is not known",
            hint=f"Known are {', '.join(_FORMATS)}.",
        )
    if op == "conv":
        return _convolution(row, number_format)
    if op in ("bmm", "linear"):
        batch = _whole(row, "b", 1)
        return product(op, batch, _whole(row, "m"), _whole(row, "n"), _whole(row, "k"), number_format)
    if op == "mem":
        return moved(_whole(row, "elems"), number_format)
    return rowwise(op, _whole(row, "rows", 1), _whole(row, "cols"), number_format)


def product(
    op: str, batch: int, rows: int, columns: int, inner: int, number_format: str = FLOAT
) -> OperatorShape:
    """``bmm`` or ``linear`` of (rows x inner) and (inner x columns)."""
    lead = (batch,) if op == "bmm" or batch > 1 else ()
    left, right, out = (*lead, rows, inner), (*lead, inner, columns), (*lead, rows, columns)
    inputs = ((columns,), left, right) if op == "linear" and not lead else (left, right)
    traffic = _BYTES[number_format] * batch * (rows * inner + inner * columns + rows * columns)
    name = "aten::bmm" if lead else f"aten::{_OPERATORS.get(op, op)}"
    flops = 2 * batch * rows * inner * columns
    formats = (number_format,) * len(inputs)
    return OperatorShape(name, inputs, formats, (out,), (number_format,), flops, traffic)


def rowwise(op: str, rows: int, columns: int, number_format: str = FLOAT) -> OperatorShape:
    """An elementwise operator, softmax or layer normalisation on a matrix. ``addu`` and similar take a number."""
    size = (rows, columns)
    inputs = (size, size) if op in _BINARY else (size,)
    name = f"aten::{_OPERATORS.get(op, op)}"
    traffic = _BYTES[number_format] * rows * columns * (len(inputs) + 1)
    formats = (number_format,) * len(inputs)
    return OperatorShape(name, inputs, formats, (size,), (number_format,), 0, traffic)


def moved(elements: int, number_format: str = FLOAT) -> OperatorShape:
    """An operator that only reads or writes this number of elements."""
    size = (elements,)
    traffic = _BYTES[number_format] * elements
    return OperatorShape("aten::copy_", (size,), (number_format,), (size,), (number_format,), 0, traffic)


def _convolution(row: Row, number_format: str) -> OperatorShape:
    batch, channels, filters, kernel, side, stride = (
        _whole(row, name) for name in ("b", "cin", "cout", "ksize", "isize", "stride")
    )
    padding = _whole(row, "pad", least=0)
    across = (side + 2 * padding - kernel) // stride + 1
    if across < 1:
        raise UsageError(
            "the filter of a row of 'conv' is larger than its image", hint="See ksize and isize."
        )
    image, weight = (batch, channels, side, side), (filters, channels, kernel, kernel)
    output = (batch, filters, across, across)
    flops = 2 * batch * filters * across**2 * channels * kernel**2
    traffic = _BYTES[number_format] * (prod(image) + prod(weight) + prod(output))
    formats = (number_format,) * 2
    return OperatorShape(
        "aten::convolution", (image, weight), formats, (output,), (number_format,), flops, traffic
    )


def _whole(row: Row, name: str, otherwise: int | None = None, *, least: int = 1) -> int:
    value = row.get(name)
    if otherwise is not None and value in (None, ""):
        return otherwise
    try:
        size = int(float(str(value)))
    except (ValueError, OverflowError):
        size = least - 1
    if size >= least:
        return size
    raise UsageError(
        f"a row of {row.get('op')!r} has no size in column {name!r}",
        hint="Each row needs the sizes of its operator: b, m, n, k of products, rows and cols of others.",
    )
