"""The same script at several batch sizes, measured in turns so that a drifting machine drifts for all."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from skyline.capture.bare import BareRows, run_bare
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.errors import Cancelled, SkylineError
from skyline.trace.profile import BatchPoint

_TURN_MS = 300.0
_MOST_PER_TURN = 24
_MOST_ROUNDS = 8
_LEAST_ROUNDS = 3
_TURNS = _MOST_ROUNDS + 2
"""Of each run at most: one to wake it, and the base has one more than there are rounds."""


@dataclass(slots=True)
class Contender:
    """One batch size's run, held between its turns."""

    batch_size: int
    child: ChildProcess
    typical_ms: float
    peak_bytes: int
    leading: tuple[int, ...]
    iterations_left: int | None = None
    """How many the script has left, where that is known."""
    rows: BareRows = field(default_factory=BareRows)
    alive: bool = True
    releases: bool = False
    """Whether it gives back what its allocator keeps without need, each time that it stands still."""

    def turn(self, rounds: int) -> float | None:
        """Run one of so many turns of a few iterations; their median in ms, None once the script has ended."""
        if not self.alive:
            return None
        iterations = max(1, min(_MOST_PER_TURN, round(_TURN_MS / max(self.typical_ms, 0.01))))
        if self.iterations_left is not None:
            iterations = max(1, min(iterations, self.iterations_left // rounds - 1))
        # Another run had the caches in between: the first iteration of a turn warms them again.
        dropped = 1 if iterations > 1 or self.typical_ms < _TURN_MS * 4 else 0
        try:
            rows = run_bare(self.child, iterations + dropped)[dropped:]
            if self.releases:
                self.release()
        except Cancelled:
            raise
        except (ScriptEnded, SkylineError):
            self.alive = False
            return None
        self.rows.rows += rows
        return statistics.median(row.step_ms for row in rows)

    def release(self) -> None:
        """Give back the device's memory that no tensor of the run uses; it stands still."""
        release(self.child)


def release(child: ChildProcess) -> int:
    """Have a run that stands still give back the device's memory that no tensor uses; how much is free then."""
    child.send("release")
    return int(child.receive("released")["free_bytes"])


def measure_by_itself(contender: Contender, base_ms: float) -> list[BatchPoint]:
    """The point of a run for which the device has no room beside the base: its turns over what the base took before.

    A GPU's clocks drift less than what else a machine does, and there is no other way.
    """
    contender.turn(_TURNS)
    contender.rows.rows.clear()
    medians = [median for _ in range(_LEAST_ROUNDS) if (median := contender.turn(_TURNS)) is not None]
    return [_point(contender, [median / base_ms for median in medians])] if len(medians) >= 2 else []


def measure_in_rounds(base: Contender, others: list[Contender], budget_s: float) -> list[BatchPoint]:
    """Points of the curve: each round gives one ratio to the base, which runs before the round and behind it.

    Every other round runs backwards: what the machine gains or loses during a round then falls on each size in turn.
    Eight rounds, or, when those do not fit the budget, as many as do, but three at least. A contender whose
    script ended is left out; so is everything once the base has ended.
    """
    ratios: dict[int, list[float]] = {contender.batch_size: [] for contender in others}
    for contender in (base, *others):
        # They stood still while the others started: the first turn wakes them and is thrown away.
        contender.turn(_TURNS)
        contender.rows.rows.clear()
    deadline = time.monotonic() + budget_s
    before = base.turn(_TURNS)
    for number in range(_MOST_ROUNDS):
        if before is None or (number >= _LEAST_ROUNDS and time.monotonic() > deadline):
            break
        medians = [(one, one.turn(_TURNS)) for one in (others[::-1] if number % 2 else others)]
        behind = base.turn(_TURNS)
        reference = before if behind is None else (before + behind) / 2
        for contender, median in medians:
            if median is not None:
                ratios[contender.batch_size].append(median / reference)
        before = behind
    return [
        _point(contender, found) for contender in others if len(found := ratios[contender.batch_size]) >= 2
    ]


def _point(contender: Contender, ratios: list[float]) -> BatchPoint:
    return BatchPoint(
        batch_size=contender.batch_size,
        times=contender.rows.times(),
        ratios=tuple(ratios),
        peak_bytes=contender.peak_bytes,
        observed_leading=contender.leading,
    )
