"""Turns: a script and variants of it compute one after another, round by round, on one machine.

A machine that becomes slower for a while slows down all of them, so that ratios within a round stay valid. The
unchanged script runs first and last in each round, and every second round runs in reverse order.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Protocol

from skyline.capture.bare import BareRows
from skyline.capture.events import StepRow
from skyline.errors import Cancelled, SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.trace.trial import Choices, Trial

_DISTURBED = 3.0
"""A turn counts as disturbed if it takes this many times longer than the run's quickest turn. This is an assumption:
while programs ran on all cores, turns of one script took 1 ms or 20 to 30 ms, because its threads wait for each other.
"""
_LEAST_UNDISTURBED = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """The typical iteration of a turn in ms, its iterations, and the number of cores used by other programs."""

    typical_ms: float
    rows: tuple[StepRow, ...] = ()
    others_cores: float = 0.0


class TakesTurns(Protocol):
    """A run that computes for a moment on request."""

    def turn(self) -> Turn | None:
        """Compute one turn; None once the run is over."""
        ...


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A run that is over, with its iteration time from an earlier measurement."""

    typical_ms: float

    def turn(self) -> Turn:
        """The earlier measurement."""
        return Turn(self.typical_ms)


@dataclass(slots=True)
class Expendable:
    """A run that takes no more turns once one has failed. Runs with the same ``key`` and ``failed`` fail together."""

    run: TakesTurns
    key: str = ""
    failed: dict[str, SkylineError] = field(default_factory=dict[str, SkylineError])
    """The first failure by key."""

    def turn(self) -> Turn | None:
        """The turn of the run; None from its first failure on."""
        if self.key in self.failed:
            return None
        try:
            return self.run.turn()
        except Cancelled:
            raise
        except SkylineError as error:
            self.failed[self.key] = error
            return None


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of each variant between two turns of the unchanged script.

    ``base`` and ``again`` are the turns of the unchanged script, in two processes, or in one before and after the
    variants. ``again`` is None if the script ended before its second turn. The turn of a variant that is over is None.
    """

    base: Turn
    again: Turn | None
    variants: tuple[Turn | None, ...]

    @property
    def base_ms(self) -> float:
        """Iteration time of the unchanged script in ms: the mean of its two turns cancels a steady drift."""
        return (
            self.base.typical_ms if self.again is None else (self.base.typical_ms + self.again.typical_ms) / 2
        )

    def ratio(self, variant: int = 0) -> float | None:
        """Ratio of a variant's iteration time to that of the unchanged script; None if it had no turn."""
        turn = self.variants[variant]
        return None if turn is None else turn.typical_ms / self.base_ms

    @property
    def null(self) -> float | None:
        """Ratio of the unchanged script's two turns: 1, apart from noise and differences between two processes."""
        return None if self.again is None else self.again.typical_ms / self.base.typical_ms

    @property
    def others_cores(self) -> float:
        """Mean number of cores used by other programs."""
        turns = (self.base, self.again, *self.variants)
        return statistics.fmean(turn.others_cores for turn in turns if turn is not None)


def in_turns(
    base: TakesTurns,
    variants: Sequence[TakesTurns],
    again: TakesTurns | None = None,
    *,
    rounds: int,
    least: int = 1,
    whole: int = 0,
    deadline: float = math.inf,
    wakes: bool = True,
    enough: Callable[[Sequence[Round]], bool] = lambda done: False,
    on_round: Callable[[int], None] = lambda number: None,
) -> tuple[Round, ...]:
    """Measure variants of a script in turns with the script unchanged.

    ``again`` is the unchanged script in a second process, for a null that shows how much two processes differ. Without
    it, the turn of ``base`` that closes a round also opens the next one. The rounds end early if ``least`` of them are
    done and the next one would probably end after ``deadline`` (of ``time.monotonic``), if the rounds so far are
    ``enough``, or if the unchanged script or all variants are over. After the deadline only the first variant has a
    turn, except in the first ``whole`` rounds. ``wakes``: each run has an uncounted turn before the first round,
    because the runs rested while the others started. ``on_round`` is called before each round with its number, and
    with 0 before the uncounted turns.
    """
    if wakes:
        on_round(0)
        for run in (base, *variants, *([] if again is None else [again])):
            run.turn()
    second = base if again is None else again
    done: list[Round] = []
    closing: Turn | None = None
    took_s = 0.0
    for number in range(rounds):
        began_s = time.monotonic()
        if number >= least and (began_s + took_s > deadline or enough(done)):
            break
        on_round(number + 1)
        backwards = number % 2 == 1
        first, last = (second, base) if backwards else (base, second)
        opening = closing if again is None and number else first.turn()
        if opening is None:
            break
        turns: list[Turn | None] = []
        for run in variants[::-1] if backwards else variants:
            late = number >= whole and turns and time.monotonic() > deadline
            turns.append(None if late else run.turn())
        closing = last.turn()
        swapped = backwards and again is not None and closing is not None
        pair = (closing, opening) if swapped and closing is not None else (opening, closing)
        done.append(Round(*pair, tuple(turns[::-1] if backwards else turns)))
        took_s = time.monotonic() - began_s
        if not any(turns):
            break
    return tuple(done)


def trial(
    choices: Choices, rounds: Sequence[Round], variant: int | None = 0, *, peak_bytes: int | None = None
) -> Trial:
    """The trial of one variant from the rounds in which it had a turn; None stands for the unchanged script."""
    if variant is None:
        own, ratios = list(rounds), []
        turns = [turn for one in rounds for turn in (one.base, one.again) if turn is not None]
    else:
        own = [one for one in rounds if one.variants[variant] is not None]
        ratios = [ratio for one in own if (ratio := one.ratio(variant)) is not None]
        turns = [turn for one in own if (turn := one.variants[variant]) is not None]
    return Trial(
        choices,
        BareRows([row for turn in turns for row in turn.rows]).times(),
        tuple(ratios),
        tuple(null for one in own if (null := one.null) is not None),
        peak_bytes,
        statistics.median([one.others_cores for one in own]) if own else 0.0,
    )


def undisturbed(rounds: Sequence[Round], variant: int | None = 0) -> Sequence[Round]:
    """The rounds in which other programs slowed down neither the unchanged script nor the variant.

    Other programs only ever add time, so that a comparison with a run's quickest turn shows which turns are disturbed.
    All rounds if too few would be left. ``variant`` None stands for the unchanged script.
    """
    slowest_ms = [[max(turn.typical_ms for turn in (one.base, one.again) if turn) for one in rounds]]
    if variant is not None:
        turns = [one.variants[variant] for one in rounds]
        slowest_ms.append([math.inf if turn is None else turn.typical_ms for turn in turns])
    most_ms = [_DISTURBED * min(each, default=0.0) for each in slowest_ms]
    calm = [
        one
        for one, *took in zip(rounds, *slowest_ms, strict=True)
        if all(ms <= most for ms, most in zip(took, most_ms, strict=True))
    ]
    return calm if len(calm) >= _LEAST_UNDISTURBED else rounds


def own_rows(rounds: Sequence[Round]) -> tuple[StepRow, ...]:
    """The iterations of the unchanged script; a turn between two rounds counts once."""
    turns = {id(turn): turn for one in rounds for turn in (one.base, one.again) if turn is not None}
    return tuple(row for turn in turns.values() for row in turn.rows)


def widened(found: Trial) -> Trial:
    """The trial of a single round, with its ratio widened both ways by the script's own change in that round.

    It has no ratio if the script ended before its second turn.
    """
    if len(found.ratios) != 1:
        return found
    (ratio,) = found.ratios
    return replace(found, ratios=tuple(one for null in found.null for one in (ratio / null, ratio * null)))
