"""A person's question (a batch size, some what-ifs, or both together) and the answer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, nan, sqrt
from typing import Literal

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

MOST = 1_000_000_000
"""No batch, number of processes or size in MB comes near; sums of bytes still fit into 64 bits."""
MOST_AT_ONCE = 1024
"""Of what is simulated one by one, such as worker processes and parts of a batch: more would not fit into memory."""


def number(name: str, value: str, allowed: Callable[[float], bool], hint: str, *, needs: str = "") -> float:
    """A value that is ``allowed``; ``needs`` says what a value is where none was given.

    Raises:
        UsageError: it is not one.
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
    """A value of at least ``least`` and at most ``most``.

    Raises:
        UsageError: it is not one.
    """
    try:
        number = int(value)
    except ValueError:
        # Text, or more digits than Python reads.
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
    """One what-if by name with its value as text (``num_workers``, ``2``); empty value: its default."""

    name: str
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Choice:
        """From ``NAME`` or ``NAME=VALUE``, as typed on a command line or sent by a client."""
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
    """A combination to predict: ``batch_size`` None leaves it as it is."""

    batch_size: int | None = None
    choices: tuple[Choice, ...] = ()

    @classmethod
    def parse(cls, batch_size: int | None, whatifs: Iterable[str]) -> Question:
        """From the fields of a client's request. Raises UsageError if one is invalid."""
        return cls(batch_size, tuple(map(Choice.parse, whatifs)))

    @property
    def all_choices(self) -> tuple[Choice, ...]:
        """The batch size, as a what-if like others, and the others."""
        size = () if self.batch_size is None else (Choice(BATCH_SIZE, str(self.batch_size)),)
        return (*size, *self.choices)

    def __post_init__(self) -> None:
        """Raise UsageError for a batch size that none can be: it comes from outside in many ways."""
        size = self.batch_size
        if size is not None and not 1 <= size <= MOST:
            # Python itself refuses to print thousands of digits.
            raise UsageError(
                "the batch size is out of range", hint=f"Give a whole number from 1 to {MOST:,}."
            )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Time and memory at one batch size; the band of the curve lies between their low and high ends."""

    batch_size: int
    iteration_ms: Interval
    throughput: Interval
    peak_bytes: Interval
    measured: bool
    extrapolated: bool


LEAST_SHARE = 0.05
"""Lower limit of a time, relative to its estimate: a time is positive at any uncertainty."""


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """The training to the same loss at another batch size: an estimate from the noise of the gradients.

    ``samples_ratio`` and ``time_ratio`` are relative to the unchanged script. ``time_s`` and ``now_s`` are None where
    the length of the training is not known, ``usd`` where no price is.
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

    ``speedup`` is samples per second over those of the unchanged script. Where ``applicable`` is false
    the numbers are those of the parts of the question that could be answered, ``reason`` says what could
    not, and nothing is claimed about it.
    """

    name: str
    value: str
    title: str
    iteration_ms: Interval
    change_ms: Interval
    """The effect of the change itself on the iteration. Its spread is that of the prediction: the scatter of the
    iteration would be there with the change and without it."""
    throughput: Interval | None
    """Samples per second; None where the samples of an iteration are not known."""
    peak_bytes: Interval | None
    """None where it is not known: a trace tells the peak at most, and not what a change does to it."""
    speedup: float
    applicable: bool
    reason: str | None
    semantics: Literal["exact", "numerics", "convergence", "model"]
    provenance: Literal["measured", "interpolated", "tried", "modelled", "assumed"]
    """Where the answer comes from; of several changes the weakest of theirs."""
    assumptions: tuple[str, ...]
    rewrite: Literal["available", "refused", "none"]
    rewrite_reason: str | None
    batch_size: int | None = None
    extrapolated: bool = False
    one_off_s: Interval | None = None
    """One-off cost, not in each iteration, such as compiling; None for a negligible one."""
    break_even_iterations: int | None = None
    """After how many iterations that is paid back; None where there is nothing to pay, or nothing is gained."""
    occasional_ms: float = 0.0
    """The iteration's share of work that only few iterations do, such as starting workers in each epoch."""
    occasional_range_ms: Interval | None = None
    """The same with its range, which ``iteration_ms`` and ``change_ms`` have in theirs; None where it has none."""
    values: tuple[str, ...] = ()
    """Of a single what-if that applies the values it offers, ``value`` among them; empty where there is no choice."""
    speedup_range: Interval | None = None
    """``speedup`` with the range that ``change_ms`` gives it; one that holds 1 may be no change at all."""
    effect_range: Interval | None = None
    """The same without the difference between two processes, which all changes have alike: it compares them."""
    curve: tuple[CurvePoint, ...] | None = None
    """The batch-size curve under these what-ifs; None where it was not asked for."""
    to_loss: TimeToLoss | None = None
    """Of another batch size; None where the noise of the gradients is not known."""

    present: str | None = None
    """The value that the code had when it was profiled (``on`` for a switch), None where the change is not in it.

    Looked for where every what-if is listed, not in the answers to single questions; ``removal`` likewise.
    """
    removal: Literal["available", "refused", "none"] = "none"
    """True if Skyline can take a change that is present out of the code."""
    removal_reason: str | None = None

    @property
    def spec(self) -> str:
        """``amp=bf16`` or ``fused_optimizer``: the what-if as it is typed."""
        return f"{self.name}={self.value}" if self.value else self.name

    @property
    def sure_speedup(self) -> float:
        """The lower end of its effect: by this changes are compared with one another."""
        found = self.effect_range or self.speedup_range
        return self.speedup if found is None else found.low

    @property
    def peak(self) -> Interval:
        """The peak in bytes; zero, which no peak is, where it is not known."""
        return self.peak_bytes or Interval.exact(0.0)

    @property
    def typical_ms(self) -> Interval:
        """The iteration in the middle of all, which is what can be measured in turns."""
        return self._typical(self.iteration_ms)

    @property
    def typical_change_ms(self) -> Interval:
        """The effect of the change on the iteration in the middle of all."""
        return self._typical(self.change_ms)

    def _typical(self, of: Interval) -> Interval:
        """Without what few iterations do, and without the range of that, an independent part of the whole range."""
        rarely = self.occasional_range_ms or Interval.exact(self.occasional_ms)
        value = of.value - self.occasional_ms
        return Interval(
            value,
            value - _without(of.value - of.low, rarely.value - rarely.low),
            value + _without(of.high - of.value, rarely.high - rarely.value),
        )


def _without(whole: float, part: float) -> float:
    """The spread that is left of a whole one without an independent part of it."""
    return sqrt(max(0.0, whole**2 - part**2))


def speedup_range(speedup: float, before_ms: float, change_ms: Interval) -> Interval:
    """A speed-up with the range that the change of an iteration of ``before_ms`` gives it."""
    after_ms = before_ms + change_ms.value

    def at(change: float) -> float:
        # However unsure, an iteration keeps some of its time.
        return speedup * after_ms / max(before_ms + change, LEAST_SHARE * after_ms)

    return Interval(speedup, min(at(change_ms.high), speedup), max(at(change_ms.low), speedup))


_LEAST_GAIN_MS = 1e-6
"""A gain of less than a nanosecond is the rounding of a simulated time."""


def break_even(one_off_s: Interval | None, change_ms: Interval) -> int | None:
    """After how many iterations a cost that comes once is paid back by what each iteration gains."""
    if one_off_s is None or change_ms.value > -_LEAST_GAIN_MS:
        return None
    return ceil(1e3 * one_off_s.value / -change_ms.value)
