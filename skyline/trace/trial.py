"""A variant of the script, measured in turns with the unchanged script."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import BareTimes, CodeLine, Phase


@dataclass(frozen=True, slots=True)
class Choices:
    """The differences of a variant from the script. None and the empty text mean the script's own value.

    With a ``number_format``, forward passes run under autocast in it. ``change`` describes an edit of the source.
    """

    batch_size: int | None = None
    threads: int | None = None
    number_format: str = ""
    change: str = ""


UNCHANGED = Choices()


@dataclass(frozen=True, slots=True)
class OpTiming:
    """The typical time of one operator of an iteration, or of a period of loading.

    ``module`` is the path of its module; empty outside any module.
    """

    name: str
    phase: Phase
    module: str
    took_us: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant of the script, run in turns with the unchanged script.

    ``times`` are the iterations of all turns. ``ratios`` has one value per round: the variant's iteration
    time over the time of the unchanged script, which runs before and after it. With a single round, it has
    the two ends of its range. ``null`` is the ratio of the unchanged script to itself in the same rounds: 1
    on a steady machine. ``peak_bytes`` is the peak of live tensor memory in an iteration; None if unknown.
    ``others_cores`` is the number of cores that other programs used; 0 if not measured.

    ``operators`` are those of a typical iteration, in order. ``python_us`` is the interpreter time between them, by
    phase. Both are empty if the variant was not recorded.
    """

    choices: Choices
    times: BareTimes
    ratios: tuple[float, ...] = ()
    null: tuple[float, ...] = ()
    peak_bytes: int | None = None
    others_cores: float = 0.0
    operators: tuple[OpTiming, ...] = ()
    python_us: dict[Phase, float] = field(default_factory=dict[Phase, float])

    @property
    def recorded_us(self) -> float:
        """The iteration time: all operators plus the interpreter time between them."""
        return sum(one.took_us for one in self.operators) + sum(self.python_us.values())

    def joined(self, other: Trial) -> Trial:
        """This trial with the rounds and operators of a later trial of the same variant appended."""
        return replace(
            self,
            ratios=(*self.ratios, *other.ratios),
            null=(*self.null, *other.null),
            operators=self.operators or other.operators,
            python_us=self.python_us or other.python_us,
        )


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """A variant of the script that raised an exception: its message, and the line of the user's code."""

    choices: Choices
    message: str
    place: CodeLine


def failed_in(trials: Iterable[FailedTrial], number_format: str) -> FailedTrial | None:
    """The trial that failed under autocast to a number format. None without one."""
    return next((one for one in trials if one.choices.number_format == number_format), None)


def joined(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """The trials, with trials of the same variant joined."""
    found: dict[Choices, Trial] = {}
    for one in trials:
        found[one.choices] = found[one.choices].joined(one) if one.choices in found else one
    return tuple(found.values())


def batch_trials(trials: Iterable[Trial]) -> dict[int, Trial]:
    """Trials of variants that differ only in batch size, sorted by it; each has ratios."""
    found = {
        one.choices.batch_size: one
        for one in trials
        if one.choices.batch_size is not None
        and one.choices == Choices(batch_size=one.choices.batch_size)
        and one.ratios
    }
    return {size: found[size] for size in sorted(found)}


PRODUCTS = (
    "aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::matmul", "aten::mm", "aten::bmm",
    "aten::addmm", "aten::scaled_dot_product_attention",
)  # fmt: skip
"""The operators that trials cover."""


@dataclass(frozen=True, slots=True)
class TriedTimes:
    """Time of one pass of a product, in µs: in float32 and in 16 bits, with the script's threads and with others.

    Casts between the formats are not included. 0 if not tried.
    """

    wide_us: float = 0.0
    narrow_us: float = 0.0
    wide_otherwise_us: float = 0.0
    narrow_otherwise_us: float = 0.0

    @property
    def narrowing(self) -> float:
        """Time in 16 bits over time in float32, with the script's threads; 0 if not tried."""
        return self.narrow_us / self.wide_us if self.wide_us else 0.0


@dataclass(frozen=True, slots=True)
class ProductTrial:
    """One operator on tensors of the sizes in the script.

    ``elements`` is the number of elements of the result, which identifies the backward work. ``threads`` is
    the script's number of threads, ``other_threads`` the number for the ``otherwise`` times. They are equal
    if only one was tried.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    number_format: str
    forward: TriedTimes
    backward: TriedTimes
    elements: int
    flops: int = 0
    threads: int = 1
    other_threads: int = 1

    def divided_part(self, times: TriedTimes, *, narrow: bool) -> float | None:
        """The parallel share of the single-thread time (Amdahl, 1967); None if not tried.

        0 if more threads take longer.
        """
        here = times.narrow_us if narrow else times.wide_us
        there = times.narrow_otherwise_us if narrow else times.wide_otherwise_us
        if not here or not there or self.threads == self.other_threads:
            return None
        return min(1.0, max(0.0, divided_part(here / there, self.threads, self.other_threads)))


@dataclass(frozen=True, slots=True)
class SplitTrial:
    """A product with a weight of the script, whole and as two products with that weight as two factors of ``rank``.

    The product multiplies ``rows`` x ``inner`` numbers by a weight of ``inner`` x ``columns``. Times are of
    one pass in µs and in float32: of the one product, and of the two products together. They do not contain
    the time of a call that computes nothing. ``threads`` is None for the script's own number; with another
    number, the first time is 0.
    """

    rows: int
    inner: int
    columns: int
    rank: int
    forward_us: tuple[float, float]
    backward_us: tuple[float, float]
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class KroneckerTrial:
    """A linear layer of the script, as it is and with a weight that is a Kronecker product.

    The layer multiplies ``rows`` x ``inner`` numbers by a weight of ``inner`` x ``columns``. The smaller factor has
    ``blocks`` rows and columns. Times are of one pass in µs and in float32, and contain the calls: of the layer as it
    is, and with the factors. With 0 ``rows``, the whole weight is made of its factors, as an LSTM needs it, and the
    first time is 0. ``threads`` is None for the script's own number; with another number, the first time is 0, too.
    """

    rows: int
    inner: int
    columns: int
    blocks: int
    forward_us: tuple[float, float]
    backward_us: tuple[float, float]
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class LayerTrials:
    """The trials of layers with smaller factors as weights."""

    split: tuple[SplitTrial, ...] = ()
    kronecker: tuple[KroneckerTrial, ...] = ()


def divided_part(ratio: float, threads: int, other_threads: int) -> float:
    """The parallel share of the single-thread time (Amdahl, 1967, solved for the share).

    ``ratio`` is the time with ``threads`` over the time with ``other_threads``. The share is below 0 if more threads
    take longer, and above 1 for superlinear gains, because each core has its own caches.
    """
    return (1 - ratio) / ((1 - 1 / threads) - ratio * (1 - 1 / other_threads))
