"""A user's question (a batch size, some what-ifs, or both together) and the answer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, nan, sqrt
from typing import Literal

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

MOST = 1_000_000_000
"""A limit far above any batch size, number of processes or size in MB. Sums of bytes still fit into 64 bits."""
MOST_AT_ONCE = 1024
"""The limit for items that are simulated one by one, such as worker processes and parts of a batch: more
would not fit into memory."""


def number(name: str, value: str, allowed: Callable[[float], bool], hint: str, *, needs: str = "") -> float:
    """The value as a number that is ``allowed``; ``needs`` describes the value in the error if none was given.

    Raises:
        UsageError: the value is not such a number.
    """
    try:
        found = float(value)
    except ValueError:
        found = nan
    if not allowed(found):
        missing = needs and not value
        raise UsageError(
            f"{name} needs {needs}" if missing else f"{name}={value[:24]} is not possible", hint=hint
        )
    return found


def whole_number(name: str, value: str, least: int = 1, most: int = MOST) -> int:
    """The value as a whole number from ``least`` to ``most``.

    Raises:
        UsageError: the value is not such a number.
    """
    try:
        number = int(value)
    except ValueError:
        # The value is text, or has more digits than Python parses.
        number = most + 1 if value.strip("+").isdecimal() else least - 1
    if number > most:
        raise UsageError(
            f"{name}={_brief(value)} is too large", hint=f"Give a whole number up to {most:,}: {name}=64."
        )
    if number < least:
        raise UsageError(
            f"{name}={value} is not possible", hint=f"Give a whole number from {least}: {name}=2."
        )
    return number


def _brief(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:20]}… ({len(value)} digits)"


BATCH_SIZE = "batch_size"


@dataclass(frozen=True, slots=True)
class Choice:
    """One what-if by name with its value as text (``num_workers``, ``2``); an empty value means its default."""

    name: str
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Choice:
        """The choice in ``NAME`` or ``NAME=VALUE``, as typed on a command line or sent by a client."""
        name, _, value = text.partition("=")
        if not name.strip():
            raise UsageError(
                f"{text!r} is not a what-if", hint="Write NAME or NAME=VALUE, for example num_workers=2."
            )
        return cls(name.strip(), value.strip())

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


@dataclass(frozen=True, slots=True)
class Question:
    """A combination to predict; with ``batch_size`` None, the batch size stays as it is."""

    batch_size: int | None = None
    choices: tuple[Choice, ...] = ()

    @classmethod
    def parse(cls, batch_size: int | None, whatifs: Iterable[str]) -> Question:
        """The question in the fields of a client's request. Raises UsageError if one is invalid."""
        return cls(batch_size, tuple(map(Choice.parse, whatifs)))

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> Question:
        """The question of these what-ifs; a batch size among them is ``batch_size``, which a command line may set."""
        asked = tuple(choices)
        size = next((int(one.value) for one in asked if one.name == BATCH_SIZE), None)
        return cls(size, tuple(one for one in asked if one.name != BATCH_SIZE))

    @property
    def all_choices(self) -> tuple[Choice, ...]:
        """All what-ifs, including the batch size as one of them."""
        size = () if self.batch_size is None else (Choice(BATCH_SIZE, str(self.batch_size)),)
        return (*size, *self.choices)

    def __post_init__(self) -> None:
        """Raise UsageError for an impossible batch size; it can come from many outside sources."""
        size = self.batch_size
        if size is not None and not 1 <= size <= MOST:
            # Python itself refuses to print thousands of digits.
            raise UsageError(
                "the batch size is out of range", hint=f"Give a whole number from 1 to {MOST:,}."
            )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Time and memory at one batch size; their low and high ends bound the band of the curve."""

    batch_size: int
    iteration_ms: Interval
    throughput: Interval
    peak_bytes: Interval
    measured: bool
    extrapolated: bool


LEAST_SHARE = 0.05
"""Lower limit of a time, relative to its estimate: a time stays positive at any uncertainty."""


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """The training to the same loss at another batch size: an estimate from the noise of the gradients.

    ``samples_ratio`` and ``time_ratio`` are relative to the unchanged script. ``time_s`` and ``now_s`` are
    None if the length of the training is not known. ``usd`` is None if no price is known.
    """

    samples_ratio: Interval
    time_ratio: Interval
    time_s: Interval | None
    now_s: Interval | None
    usd: Interval | None
    basis: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted effect of one what-if, or of a combination.

    ``speedup`` is the ratio of samples per second to those of the unchanged script. If ``applicable`` is
    false, the numbers cover only the parts of the question that could be answered, and ``reason`` names the
    other parts.
    """

    name: str
    value: str
    title: str
    iteration_ms: Interval
    change_ms: Interval
    """The effect of the change itself on the iteration. Its range is the uncertainty of the prediction; the
    scatter of the iteration is left out, because it exists with and without the change."""
    throughput: Interval | None
    """Samples per second; None if the samples of an iteration are not known."""
    peak_bytes: Interval | None
    """None if unknown: a trace shows the peak at best, and not the effect of a change on it."""
    speedup: float
    applicable: bool
    reason: str | None
    semantics: Literal["exact", "numerics", "convergence", "model"]
    provenance: Literal["measured", "interpolated", "tried", "modelled", "assumed"]
    """Where the answer comes from; for several changes, the weakest of their provenances."""
    assumptions: tuple[str, ...]
    rewrite: Literal["available", "refused", "none"]
    rewrite_reason: str | None
    batch_size: int | None = None
    extrapolated: bool = False
    one_off_s: Interval | None = None
    """The one-off cost, such as compiling; None if negligible."""
    break_even_iterations: int | None = None
    """The number of iterations after which the one-off cost is paid back; None if there is no cost or no gain."""
    occasional_ms: float = 0.0
    """The part of the iteration that stands for work of only a few iterations, such as starting workers in
    each epoch."""
    occasional_range_ms: Interval | None = None
    """``occasional_ms`` with its range, which the ranges of ``iteration_ms`` and ``change_ms`` include; None
    without one."""
    values: tuple[str, ...] = ()
    """The values that a single applicable what-if offers, including ``value``; empty if there is no choice."""
    speedup_range: Interval | None = None
    """``speedup`` with the range that follows from ``change_ms``; if it includes 1, there may be no effect at all."""
    effect_range: Interval | None = None
    """``speedup_range`` without the difference between two processes, which is the same for all changes. It
    serves to compare changes."""
    curve: tuple[CurvePoint, ...] | None = None
    """The batch-size curve under these what-ifs; None if it was not requested."""
    to_loss: TimeToLoss | None = None
    """The time to the same loss at another batch size; None if the noise of the gradients is not known."""

    present: str | None = None
    """The value in the code when it was profiled (``on`` for a switch); None if the code does not have the
    change.

    It is set only in the list of all what-ifs, not in answers to single questions. The same holds for
    ``removal``.
    """
    removal: Literal["available", "refused", "none"] = "none"
    """``available`` if Skyline can remove the present change from the code."""
    removal_reason: str | None = None

    @property
    def spec(self) -> str:
        """The what-if as it is typed: ``amp=bf16`` or ``fused_optimizer``."""
        return f"{self.name}={self.value}" if self.value else self.name

    @property
    def sure_speedup(self) -> float:
        """The lower end of the effect, which serves to compare changes with one another."""
        found = self.effect_range or self.speedup_range
        return self.speedup if found is None else found.low

    @property
    def peak(self) -> Interval:
        """The peak in bytes; 0 if unknown."""
        return self.peak_bytes or Interval.exact(0.0)

    @property
    def typical_ms(self) -> Interval:
        """The time of the typical (median) iteration, which can be measured in alternating runs."""
        return self._typical(self.iteration_ms)

    @property
    def typical_change_ms(self) -> Interval:
        """The effect of the change on the typical (median) iteration."""
        return self._typical(self.change_ms)

    def _typical(self, of: Interval) -> Interval:
        """The amount without the work of only a few iterations, and without its range, an independent part."""
        rarely = self.occasional_range_ms or Interval.exact(self.occasional_ms)
        value = of.value - self.occasional_ms
        return Interval(
            value,
            value - _without(of.value - of.low, rarely.value - rarely.low),
            value + _without(of.high - of.value, rarely.high - rarely.value),
        )


def _without(whole: float, part: float) -> float:
    """The spread that remains of ``whole`` after removing an independent part."""
    return sqrt(max(0.0, whole**2 - part**2))


def speedup_range(speedup: float, before_ms: float, change_ms: Interval) -> Interval:
    """A speed-up with the range that follows from the change of an iteration of ``before_ms``."""
    after_ms = before_ms + change_ms.value

    def at(change: float) -> float:
        # At any uncertainty, an iteration keeps some of its time.
        return speedup * after_ms / max(before_ms + change, LEAST_SHARE * after_ms)

    return Interval(speedup, min(at(change_ms.high), speedup), max(at(change_ms.low), speedup))


_LEAST_GAIN_MS = 1e-6
"""A gain of less than a nanosecond is a rounding error of the simulated time."""


def break_even(one_off_s: Interval | None, change_ms: Interval) -> int | None:
    """The number of iterations whose gain pays back a one-off cost; None without a cost or a gain."""
    if one_off_s is None or change_ms.value > -_LEAST_GAIN_MS:
        return None
    return ceil(1e3 * one_off_s.value / -change_ms.value)
