"""Values in the tensors of a script over a few of its iterations: rows of embeddings, zeros, and widths."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import plural

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class HotRows:
    """The rows with the most lookups per byte that fit into ``size_bytes``.

    ``hit_share`` is their share of the lookups. ``whole_samples`` is the share of samples with all lookups in
    these rows (None if unknown). Both are counted in other iterations than those that selected the rows.
    ``cold_bytes`` is the size of the other rows that an iteration looks up, counted once each.
    ``table_bytes`` is the part of each table. In nine of ten profiles, the share of the best selection lies
    between ``least_share`` and ``most_share``.
    """

    size_bytes: int
    hit_share: float
    cold_bytes: float
    whole_samples: float | None = None
    table_bytes: tuple[float, ...] = ()
    least_share: float = 0.0
    most_share: float = 1.0
    """Profiles of earlier versions have no range."""


@dataclass(frozen=True, slots=True)
class SteadyRows:
    """Looked-up rows that an optimizer step changes by at most ``change`` times their norm.

    ``row_share`` is their share of the rows that an iteration looks up, ``lookup_share`` their share of the
    lookups.
    """

    change: float
    row_share: float
    lookup_share: float


@dataclass(frozen=True, slots=True)
class TableAccess:
    """An embedding table: ``rows`` of ``row_bytes`` each.

    ``lookups`` is the number of indices in an iteration, without indices of the padding row.
    ``distinct_rows`` is the number of distinct rows among them. ``hot`` is sorted by size.
    """

    path: str
    rows: int
    row_bytes: int
    lookups: float
    distinct_rows: float
    hot: tuple[HotRows, ...] = ()
    steady: tuple[SteadyRows, ...] = ()
    """Sorted by change, smallest first. Empty if no optimizer step could be compared."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole table."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class LayerZeros:
    """Shares of zeros among the numbers that a linear layer or a convolution multiplies in one iteration.

    ``multiplications`` counts the forward pass. The backward pass has as many for the gradient of the input,
    and again for the gradient of the weight. ``gradients`` refers to the gradient of the layer's result; None
    if there was none.
    """

    path: str
    multiplications: int
    inputs: float
    weights: float
    gradients: float | None = None


@dataclass(frozen=True, slots=True)
class ValueWidths:
    """Bits that ``numbers`` values of an iteration need as 16-bit integers if the largest of a tensor needs all 16.

    ``in_eight_bits`` and ``in_four_bits`` are the shares of values that need no more bits.
    """

    numbers: int
    mean_bits: float
    in_eight_bits: float
    in_four_bits: float


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Widths of the numbers that a linear layer or a convolution multiplies, in the iteration that counts zeros.

    ``gradients`` refers to the gradients of its result. None if there were none.
    """

    path: str
    inputs: ValueWidths
    weights: ValueWidths
    gradients: ValueWidths | None = None


@dataclass(frozen=True, slots=True)
class TensorValues:
    """Values seen in ``iterations`` iterations that were neither timed nor recorded.

    ``tables`` are the trained embedding tables of 1 MiB and more. ``hot`` refers to all of them together.
    ``problem`` explains why the values could not be read; empty if they could.
    """

    iterations: int
    tables: tuple[TableAccess, ...] = ()
    hot: tuple[HotRows, ...] = ()
    problem: str = ""
    seen_on: str = ""
    """The device of the run that showed them. Empty if it is the profile's device."""
    zeros: tuple[LayerZeros, ...] = ()
    """Zeros of at most 200 layers that ran in the first iteration."""
    widths: tuple[LayerWidths, ...] = ()
    """Widths in the same layers. Empty in profiles of earlier versions."""
    after: int | None = None
    """The number of iterations before these in the run. None in profiles of earlier versions."""

    @property
    def basis(self) -> str:
        """A phrase for the end of a sentence: the number of iterations, and the device if it is another one."""
        where = f" of a run on {self.seen_on}" if self.seen_on else ""
        return f"{plural(self.iterations, 'iteration')}{where}"


def hot_at(points: tuple[HotRows, ...], size_bytes: float) -> HotRows:
    """The hottest rows of any size, by linear interpolation. ``points`` are sorted by size and not empty."""
    above = next((one for one in points if one.size_bytes >= size_bytes), points[-1])
    below = next((one for one in reversed(points) if one.size_bytes <= size_bytes), None)
    if below is None:
        # The requested size is below all counted ones: interpolate from zero.
        whole = None if above.whole_samples is None else 0.0
        none = (0.0,) * len(above.table_bytes)
        below = HotRows(0, 0.0, above.cold_bytes, whole, none, most_share=above.most_share)
    width = above.size_bytes - below.size_bytes
    part = min(1.0, (size_bytes - below.size_bytes) / width) if width > 0 else 1.0

    def between(low: float, high: float) -> float:
        return low + part * (high - low)

    known = below.whole_samples is not None and above.whole_samples is not None
    return HotRows(
        int(size_bytes),
        between(below.hit_share, above.hit_share),
        between(below.cold_bytes, above.cold_bytes),
        between(below.whole_samples or 0.0, above.whole_samples or 0.0) if known else None,
        tuple(map(between, below.table_bytes, above.table_bytes)),
        between(below.least_share, above.least_share),
        # The share is a concave function of the size, so it may lie above the line between two sizes.
        min(above.most_share, below.most_share * size_bytes / below.size_bytes)
        if below.size_bytes
        else above.most_share,
    )


def steady_at(points: tuple[SteadyRows, ...], change: float) -> SteadyRows:
    """Rows that change by at most this part of their norm: the counts for the next smaller part."""
    below = [one for one in points if one.change <= change * (1 + _ROUNDING)]
    return (
        SteadyRows(change, below[-1].row_share, below[-1].lookup_share)
        if below
        else SteadyRows(change, 0.0, 0.0)
    )
