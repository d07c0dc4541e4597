"""Values in the tensors of a script over a few of its iterations: rows of embeddings, zeros, and widths."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass
from skyline.units import plural

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class HotRows:
    """The rows with most lookups per byte that fit into ``size_bytes``.

    ``hit_share`` is their share of the lookups, ``whole_samples`` the share of samples all of whose lookups they
    answer (None if unknown), both counted in other iterations than those that chose the rows. ``cold_bytes`` are the
    other rows that an iteration looks up, once each. ``table_bytes`` are the bytes of each table among them. The share
    of the best choice of rows lies between ``least_share`` and ``most_share`` in nine of ten profiles.
    """

    size_bytes: int
    hit_share: float
    cold_bytes: float
    whole_samples: float | None = None
    table_bytes: tuple[float, ...] = ()
    least_share: float = 0.0
    most_share: float = 1.0
    """Profiles of earlier versions do not know the range."""


@dataclass(frozen=True, slots=True)
class SteadyRows:
    """Looked-up rows that a step of the optimizer changes by no more than the ``change``-th part of their norm.

    ``row_share`` is their share of the rows that an iteration looks up, ``lookup_share`` that of the lookups.
    """

    change: float
    row_share: float
    lookup_share: float


@dataclass(frozen=True, slots=True)
class TableAccess:
    """An embedding table: ``rows`` of ``row_bytes`` each.

    ``lookups`` is the number of indices in an iteration without those of the padding row, ``distinct_rows`` the number
    of different rows among them. ``hot`` is sorted by size.
    """

    path: str
    rows: int
    row_bytes: int
    lookups: float
    distinct_rows: float
    hot: tuple[HotRows, ...] = ()
    steady: tuple[SteadyRows, ...] = ()
    """By change, smallest first; empty if no step of an optimizer could be compared."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole table."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class LayerZeros:
    """Shares of zeros that a linear layer or a convolution multiplies in one iteration.

    ``multiplications`` are those of its forward pass; the backward pass has as many for the gradient of the input and
    for that of the weight. ``gradients`` belongs to the gradient of its result, None if there was none.
    """

    path: str
    multiplications: int
    inputs: float
    weights: float
    gradients: float | None = None


@dataclass(frozen=True, slots=True)
class ValueWidths:
    """Bits that ``numbers`` values of an iteration need as 16-bit integers; each tensor's largest value needs all 16.

    ``in_eight_bits`` and ``in_four_bits`` are the shares of values that need no more.
    """

    numbers: int
    mean_bits: float
    in_eight_bits: float
    in_four_bits: float


@dataclass(frozen=True, slots=True)
class LayerWidths:
    """Widths of what a linear layer or a convolution multiplies, in the iteration in which zeros are counted.

    ``gradients`` are those of its result, None if there were none.
    """

    path: str
    inputs: ValueWidths
    weights: ValueWidths
    gradients: ValueWidths | None = None


@dataclass(frozen=True, slots=True)
class TensorValues:
    """Values seen in ``iterations`` iterations that were neither timed nor recorded.

    ``tables`` are the trained embedding tables of 1 MiB and more. ``hot`` is about all of them together.
    ``problem`` says why they could not be read; empty if they could.
    """

    iterations: int
    tables: tuple[TableAccess, ...] = ()
    hot: tuple[HotRows, ...] = ()
    problem: str = ""
    seen_on: str = ""
    """The device of the run that showed them; empty for that of the profile."""
    zeros: tuple[LayerZeros, ...] = ()
    """Of the layers that ran in the first iteration, at most 200."""
    widths: tuple[LayerWidths, ...] = ()
    """Of the same layers; empty in profiles of earlier versions."""
    after: int | None = None
    """The number of iterations of the run before these; None in profiles of earlier versions."""

    @property
    def basis(self) -> str:
        """The iterations that showed them, as the end of a sentence."""
        where = f" of a run on {self.seen_on}" if self.seen_on else ""
        return f"{plural(self.iterations, 'iteration')}{where}"


def hot_at(points: tuple[HotRows, ...], size_bytes: float) -> HotRows:
    """The hottest rows of any size, by linear interpolation; ``points`` are sorted by size and not empty."""
    above = next((one for one in points if one.size_bytes >= size_bytes), points[-1])
    below = next((one for one in reversed(points) if one.size_bytes <= size_bytes), None)
    if below is None:
        # Fewer rows than were counted: they have their part of the lookups at least.
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
        # The share grows with the size, and ever more slowly: it may lie above the line between two sizes.
        min(above.most_share, below.most_share * size_bytes / below.size_bytes)
        if below.size_bytes
        else above.most_share,
    )


def steady_at(points: tuple[SteadyRows, ...], change: float) -> SteadyRows:
    """Rows that change by at most any part of their norm: those of the next smaller part that was counted."""
    below = [one for one in points if one.change <= change * (1 + _ROUNDING)]
    return (
        SteadyRows(change, below[-1].row_share, below[-1].lookup_share)
        if below
        else SteadyRows(change, 0.0, 0.0)
    )
