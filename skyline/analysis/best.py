"""Search for the combination of what-ifs with the highest throughput, within limits of memory and semantics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf, isinf

from skyline.analysis.analyse import Analysis
from skyline.analysis.estimate import answer_or_reason
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import usable_bytes
from skyline.whatif.base import Semantics
from skyline.whatif.composition import detected_in
from skyline.whatif.question import BATCH_SIZE, Choice, Estimate, Question
from skyline.whatif.registry import whatifs

_WORTH = 1.005
"""Least gain of a part as a ratio: less than half a percent does not justify a change of the code."""
_MOST_TRIED = 200
"""Limit of simulations per search; with few what-ifs, a search needs far fewer."""
_MOST_VALUES = 6
"""Number of values that are tried per what-if."""
_VALUES_TOGETHER = 2
"""Number of values per what-if that are tried in combinations: those that are best on their own."""
_NOT_TRIED = f"the search ended after {_MOST_TRIED} combinations; other combinations were not tried"
_SLOWER = 0.995


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of a combination.

    ``memory_bytes`` None means the device's memory. ``semantics`` is the most severe class allowed.
    ``rewritable`` excludes changes that the user would have to make by hand.
    """

    memory_bytes: float | None = None
    semantics: Semantics = Semantics.CONVERGENCE
    rewritable: bool = False


@dataclass(frozen=True, slots=True)
class Best:
    """The best combination among ``tried`` ones, or the reason why there is none."""

    question: Question
    estimate: Estimate | None
    tried: int
    memory_bytes: float | None
    """The memory limit in use; None if unknown."""
    reason: str = ""
    left_out: tuple[str, ...] = ()
    """Parts that cannot be made even on their own, as the user types them, with reasons. A note on a
    shortened search is last."""


def best(analysis: Analysis, constraints: Constraints | None = None) -> Best:
    """Greedy search from the unchanged script: repeatedly add the part with the largest gain.

    A part that saves memory is also tried with each part that it makes possible, such as checkpointing with a
    larger batch. Every combination is simulated as a whole. The result is the best of the tried combinations,
    not necessarily the optimum.
    """
    search = Climb(analysis, constraints or Constraints())
    return search.run()


class Climb:
    """One search, with its answers so far. Other searches reuse it for further combinations."""

    def __init__(self, analysis: Analysis, constraints: Constraints, most: int | None = None) -> None:
        """``most`` limits the simulations; by default as in ``best``."""
        self._most = most or _MOST_TRIED
        self._analysis = analysis
        self._constraints = constraints
        usable = usable_bytes(analysis.profile)
        self._limit = constraints.memory_bytes or (float(usable) if usable is not None else inf)
        self._said_limit = None if isinf(self._limit) else self._limit
        self._cut = False
        self.answers: dict[frozenset[Choice], Estimate] = {}

    def run(self) -> Best:
        """Run the search."""
        parts = self.parts()
        start = self.ask(frozenset())
        singles = {part: self.ask(frozenset({part})) for part in parts}
        savers = [
            part
            for part, found in singles.items()
            if found.applicable and found.peak.value < 0.99 * start.peak.value
        ]
        useful = [
            part
            for part, found in singles.items()
            if part in savers or (found.applicable and found.speedup > _SLOWER)
        ]
        left_out = tuple(f"{part}: {found.reason}" for part, found in singles.items() if found.reason)
        useful = _few_of_each(useful, singles)
        savers = _few_of_each(savers, singles)
        promising = [part for part, found in singles.items() if found.speedup > _SLOWER]
        now: frozenset[Choice] = frozenset()
        while True:
            # A part that does not fit may fit together with one that saves memory.
            hungry = [part for part in promising if not self._fits(now | {part})]
            moves = [now | {part} for part in useful]
            moves += [now | {saver, part} for saver in savers for part in hungry]
            better = self._best(one for one in moves if _one_value_each(one))
            worth = _WORTH if self.keeps(now) else 0.0
            if better is None or self._speed(better) <= worth * self._speed(now):
                break
            now = better
        now = self._without_idle(now)
        if self._cut:
            left_out = (*left_out, _NOT_TRIED)
        found = self.ask(now)
        if not self.keeps(now):
            reason = "no combination fits within the memory limit"
            return Best(Question(), None, len(self.answers), self._said_limit, reason, left_out)
        return Best(self.question(now), found, len(self.answers), self._said_limit, left_out=left_out)

    def parts(self) -> list[Choice]:
        """Every value of every applicable and allowed what-if."""
        order = list(Semantics)
        found: list[Choice] = []
        for name, whatif in whatifs().items():
            if order.index(whatif.semantics) > order.index(self._constraints.semantics):
                continue
            answer = detected_in(self._analysis.baseline, whatif)
            if not answer.applicable:
                continue
            values = list(dict.fromkeys((answer.default, *answer.values)))[: _MOST_VALUES + 1]
            if name == BATCH_SIZE:
                # A suggested value fits on its own. Together with memory savings, larger values may fit.
                values.append(str(2 * max(map(int, values))))
            found += [Choice(name, value) for value in values]
        return found

    def _best(self, moves: Iterable[frozenset[Choice]]) -> frozenset[Choice] | None:
        keeping = [one for one in dict.fromkeys(moves) if self.keeps(one)]
        return max(keeping, key=lambda one: (self._speed(one), -len(one)), default=None)

    def _without_idle(self, chosen: frozenset[Choice]) -> frozenset[Choice]:
        """Remove parts that no longer have an effect."""
        for part in sorted(chosen, key=str):
            less = chosen - {part}
            found = self.ask(less)
            if self.keeps(less) and self._speed(chosen) <= _WORTH * found.sure_speedup:
                chosen = less
        return chosen

    def keeps(self, chosen: frozenset[Choice]) -> bool:
        """True if the combination can be made within the constraints."""
        found = self.ask(chosen)
        by_hand = bool(chosen) and self._constraints.rewritable and found.rewrite != "available"
        return found.applicable and found.peak.value <= self._limit and not by_hand

    def _fits(self, chosen: frozenset[Choice]) -> bool:
        found = self.ask(chosen)
        return found.applicable and found.peak.value <= self._limit

    def _speed(self, chosen: frozenset[Choice]) -> float:
        return self.ask(chosen).sure_speedup

    def ask(self, chosen: frozenset[Choice]) -> Estimate:
        """The simulated effect of the combination."""
        if chosen not in self.answers:
            if len(self.answers) >= self._most:
                self._cut = True
                return replace(self.answers[frozenset()], applicable=False, reason=_NOT_TRIED)
            self.answers[chosen] = answer_or_reason(
                self._analysis.baseline, self.question(chosen).choices, self._analysis.rewrites
            )
        return self.answers[chosen]

    @staticmethod
    def question(chosen: frozenset[Choice]) -> Question:
        """The question with the parts in the order in which they are applied, the batch size among them."""
        order = list(whatifs())
        return Question(None, tuple(sorted(chosen, key=lambda one: order.index(one.name))))


def _few_of_each(parts: list[Choice], singles: dict[Choice, Estimate]) -> list[Choice]:
    """The values of each what-if that are best on their own. Only these are tried in combinations."""
    kept: dict[str, int] = {}
    found: list[Choice] = []
    for part in sorted(parts, key=lambda one: -singles[one].sure_speedup):
        kept[part.name] = kept.get(part.name, 0) + 1
        if kept[part.name] <= _VALUES_TOGETHER:
            found.append(part)
    return found


def _one_value_each(chosen: frozenset[Choice]) -> bool:
    """True if no what-if occurs with two values."""
    return len({one.name for one in chosen}) == len(chosen)
