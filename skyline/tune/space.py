"""The combinations that can be tried, each with its simulated effect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from skyline.analysis.analyse import Analysis
from skyline.analysis.best import Climb, Constraints
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.question import BATCH_SIZE, Choice, Estimate, Question, whole_number

Parts = frozenset[Choice]

_MOST_SIMULATED = 3000
_SUBSETS_OF = 6
"""The number of parts up to which all subsets of the simulated best are candidates."""
_MAY_GAIN = 1.0
_ELSEWHERE = ("data_parallel",)
"""Changes that start the script as several processes, which a paired trial cannot do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A combination with its simulated samples per second, relative to the unchanged script.

    ``one_off_s`` is the time before its first iteration, such as for compiling.
    """

    parts: Parts
    speedup: Interval
    one_off_s: float = 0.0

    @property
    def words(self) -> str:
        """The parts as they are typed."""
        return " ".join(sorted(map(str, self.parts)))

    @property
    def question(self) -> Question:
        """The parts as a question."""
        return question_of(self.parts)


def question_of(parts: Parts) -> Question:
    """The parts as a question, in which the batch size is separate."""
    sizes = [whole_number(BATCH_SIZE, one.value) for one in parts if one.name == BATCH_SIZE]
    others = sorted((one for one in parts if one.name != BATCH_SIZE), key=str)
    return Question(sizes[0] if sizes else None, tuple(others))


class Space:
    """The candidates of a script within constraints; simulations are cached."""

    def __init__(self, analysis: Analysis, constraints: Constraints) -> None:
        self._climb = Climb(analysis, constraints, _MOST_SIMULATED)
        best = self._climb.run()
        parts = [part for part in self._climb.parts() if part.name not in _ELSEWHERE]
        self._parts = tuple(part for part in parts if self._may_gain(frozenset({part})))
        self._candidates: dict[Parts, Candidate] = {}
        self._add(chosen for chosen in list(self._climb.answers) if chosen)
        self._add(self._subsets(frozenset(best.question.choices)))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Single changes that may gain and that cannot be written into this script, with the reasons."""
        refused: dict[str, str] = {}
        for part in self._parts:
            found = self._climb.ask(frozenset({part}))
            if found.rewrite == "refused":
                refused.setdefault(part.name, found.rewrite_reason or "it cannot be written here")
        return tuple(f"{name}: {reason}" for name, reason in refused.items())

    @property
    def singles(self) -> dict[Choice, Interval]:
        """The simulated speed-up of each single part."""
        return {part: _speedup(self._climb.ask(frozenset({part}))) for part in self._parts}

    def around(self, chosen: Parts) -> tuple[Candidate, ...]:
        """All candidates so far, and the combinations that differ from ``chosen`` in one part."""
        self._add(chosen - {part} for part in chosen if len(chosen) > 1)
        self._add(chosen - _same_name(chosen, part) | {part} for part in self._parts)
        return tuple(self._candidates.values())

    def _add(self, several: Iterator[Parts]) -> None:
        for chosen in several:
            allowed = all(part in self._parts for part in chosen) and len(
                {one.name for one in chosen}
            ) == len(chosen)
            if chosen in self._candidates or not allowed or not self._climb.keeps(chosen):
                continue
            if any(self._changes_nothing(part, chosen) for part in chosen):
                continue
            found = self._climb.ask(chosen)
            one_off_s = 0.0 if found.one_off_s is None else found.one_off_s.value
            self._candidates[chosen] = Candidate(chosen, _speedup(found), one_off_s)

    def _may_gain(self, chosen: Parts) -> bool:
        """True if a combination may gain; a part that saves memory may make other gains possible."""
        found = self._climb.ask(chosen)
        saves = found.peak.value < 0.99 * self._climb.ask(frozenset()).peak.value
        return found.applicable and (saves or _speedup(found).high > _MAY_GAIN)

    def _changes_nothing(self, part: Choice, chosen: Parts) -> bool:
        """True if the other parts alone give the same result, such as checkpointing of no block if all fits."""
        found, others = self._climb.ask(chosen), self._climb.ask(chosen - {part})
        return (found.iteration_ms, found.peak) == (others.iteration_ms, others.peak)

    @staticmethod
    def _subsets(chosen: Parts) -> Iterator[Parts]:
        if len(chosen) <= _SUBSETS_OF:
            for count in range(1, len(chosen)):
                yield from map(frozenset, combinations(sorted(chosen, key=str), count))


def _same_name(chosen: Parts, part: Choice) -> Parts:
    return frozenset(one for one in chosen if one.name == part.name)


def _speedup(found: Estimate) -> Interval:
    return found.speedup_range or Interval.exact(found.speedup)
