"""The bytes that operators read and write, by their shapes, and the rate that the machine reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod

from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape

_SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2,
}  # fmt: skip
_REDUCES = ("mean", "sum", "var", "std", "max", "min", "amax", "amin", "norm", "all", "any", "argmax", "loss")
_SAVES_NOTHING = ("Add", "Sub", "Neg", "Mean", "Sum", "Clone", "Copy", "ToCopy", "Expand", "Cat", "Stack")
_ONE_PASS = {
    "add", "sub", "mul", "div", "relu", "neg", "add_", "mul_", "relu_", "div_", "sub_", "clone", "copy_", "where",
    "AddBackward0", "MulBackward0", "ReluBackward0", "DivBackward0", "SubBackward0", "NegBackward0", "maximum",
}  # fmt: skip
"""Operators whose arithmetic is negligible compared with their memory traffic."""
_COMPARES = {
    "ge", "gt", "le", "lt", "eq", "ne", "__and__", "__or__", "bitwise_and", "bitwise_or", "bitwise_not",
    "logical_and", "logical_or", "logical_not", "abs", "minimum", "clamp", "clamp_min", "clamp_max", "to", "addcmul",
}  # fmt: skip
"""The same, with results or bounds that are no measure of the rate."""
_LARGE = 0.25
"""Share of the largest traffic above which a call shows the bandwidth and not its own overhead."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of one call: each input and the output, with their dimensions."""

    reads: tuple[tuple[tuple[int, ...], int], ...]
    writes: tuple[tuple[int, ...], int]
    saved: bool
    """True if it also reads data that the forward pass kept for it."""

    @property
    def size_bytes(self) -> int:
        """All bytes that the call moves if it runs alone."""
        kept = self.writes[1] if self.saved else 0
        return sum(size for _, size in self.reads) + self.writes[1] + kept


@cache
def traffic(shape: OperatorShape) -> Traffic:
    """The traffic of a call; an unrecorded output is assumed to have the dimensions of the largest input."""
    sizes = [(one, _bytes(one, kind)) for one, kind in zip(shape.inputs, shape.dtypes, strict=False)]
    largest = max(sizes, key=lambda entry: entry[1], default=((), 0))
    if shape.outputs:
        kinds = shape.output_dtypes or ("float32",) * len(shape.outputs)
        written = max(
            ((one, _bytes(one, kind)) for one, kind in zip(shape.outputs, kinds, strict=False)),
            key=lambda entry: entry[1],
        )
    else:
        bare = shape.operator.rpartition("::")[2]
        reduces = bare in _REDUCES or bare.endswith("loss")
        written = ((), 0) if reduces else largest
    backward = "Backward" in shape.operator
    return Traffic(
        tuple(entry for entry in sizes if entry[1]),
        written,
        backward and not shape.operator.startswith(_SAVES_NOTHING),
    )


def external_bytes(calls: Iterable[OperatorShape]) -> int:
    """The bytes that a group of calls reads from outside and writes for others, if they run as one.

    The identity of tensors was not recorded. An input counts as internal if an earlier call in the group has
    an output of its dimensions, and as read once however many calls have an input of these dimensions. The
    last output is written. Of the data that the forward pass kept, as much as one output is read; the rest is
    recomputed.
    """
    inside: set[tuple[int, ...]] = set()
    total, last, kept = 0, 0, 0
    for call in calls:
        moved = traffic(call)
        for dimensions, size in moved.reads:
            if dimensions not in inside:
                inside.add(dimensions)
                total += size
        dimensions, last = moved.writes
        inside.add(dimensions)
        if moved.saved:
            kept = max(kept, last)
    return total + last + kept


def most_numbers(call: OperatorShape) -> int:
    """The number of elements of the largest input or output."""
    return max((prod(one) for one in (*call.inputs, *call.outputs)), default=0)


def is_plain(call: OperatorShape) -> bool:
    """True if the arithmetic of a call is negligible compared with its memory traffic."""
    return call.operator.rpartition("::")[2] in _ONE_PASS | _COMPARES


def bandwidth(calls: Sequence[tuple[OperatorShape, float]]) -> float | None:
    """The bytes per µs that the largest plain calls reached; ``calls`` come with their time in µs. None without any."""
    plain = [
        (traffic(shape).size_bytes, took)
        for shape, took in calls
        if took > 0 and shape.operator.rpartition("::")[2] in _ONE_PASS
    ]
    largest = max((size for size, _ in plain), default=0)
    rates = [size / took for size, took in plain if size >= _LARGE * largest > 0]
    return median(rates) if rates else None


def _bytes(dimensions: tuple[int, ...], kind: str) -> int:
    count = 1
    for size in dimensions:
        count *= size
    return count * _SIZES.get(kind, 1) if dimensions else 0
