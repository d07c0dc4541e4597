"""Beliefs about candidates: simulated speed-ups, corrected by trials of candidates that share parts with them.

The error of a simulation, in the logarithm of the speed-up, is modelled as a sum of two errors: an error of
each part, shared by all candidates with the part, and an error of the combination (a Gaussian process with a
linear kernel: Rasmussen and Williams, 2006, sections 2.2 and 4.2.2). The next trial is the one with the
largest expected improvement (Jones et al., 1998) per second of its duration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erf, exp, hypot, log, pi, sqrt

import numpy as np

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.tune.space import Candidate, Parts
from skyline.whatif.question import Choice

_ENDS = 1.96
"""The number of standard deviations from the value to the ends of a range."""
_LEAST_PART = 0.1
"""The least standard deviation of a part's error. Half of the single predictions err by less than 3 %, but
one in ten by more than 10 %. With a smaller value, the search gives up too late on a part that is far from
its prediction."""
_COMBINED = 0.06
"""The standard deviation that combining adds to the parts' errors: 1.48 times the median over 59 triples
whose parts were measured too (results ``whatifs*`` and ``unseen_whatifs*``), divided by the square root of
the 2 additional parts."""
LEAST_NOISE = 0.01
"""The approximate difference between two processes of one script."""
_OTHER_VALUE = 0.7
"""The correlation of the errors of two values of one what-if."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A measured candidate: the logarithm of its speed-up, and its standard deviation."""

    candidate: Candidate
    log_speedup: float
    noise: float

    @classmethod
    def of(cls, candidate: Candidate, speedup: Interval, null: float) -> Evidence:
        """The evidence of a trial; ``null`` is the unchanged script compared with itself in the same rounds."""
        return cls(candidate, log(speedup.value), hypot(_spread(speedup, LEAST_NOISE), log(null)))


@dataclass(frozen=True, slots=True)
class Belief:
    """The mean and the standard deviation of the logarithm of a speed-up."""

    mean: float
    deviation: float

    def improvement(self, over: float) -> float:
        """The expected improvement over a mean."""
        if self.deviation <= 0:
            return max(0.0, self.mean - over)
        score = (self.mean - over) / self.deviation
        density, below = exp(-score * score / 2) / sqrt(2 * pi), (1 + erf(score / sqrt(2))) / 2
        return self.deviation * (density + score * below)


def believed(
    candidates: Sequence[Candidate], evidence: Sequence[Evidence], singles: Mapping[Choice, Interval]
) -> list[Belief]:
    """The belief about each candidate; ``singles`` are the simulated speed-ups of the single parts."""
    unsure = {part: _spread(speedup, _LEAST_PART) for part, speedup in singles.items()}

    def together(first: Parts, second: Parts) -> float:
        shared = sum(
            unsure[a] * unsure[b] * (1.0 if a == b else _OTHER_VALUE)
            for a in first
            for b in second
            if a.name == b.name
        )
        return shared + (_COMBINED**2 * (len(first) - 1) if first == second else 0.0)

    prior = [log(max(one.speedup.value, 1e-6)) for one in candidates]
    if not evidence:
        return [
            Belief(mean, sqrt(together(one.parts, one.parts)))
            for one, mean in zip(candidates, prior, strict=True)
        ]
    seen = [one.candidate for one in evidence]
    missed = np.array([one.log_speedup - log(max(one.candidate.speedup.value, 1e-6)) for one in evidence])
    known = np.array([[together(a.parts, b.parts) for b in seen] for a in seen])
    known += np.diag([one.noise**2 for one in evidence])
    cross = np.array([[together(a.parts, b.parts) for b in seen] for a in candidates])
    weights = np.linalg.solve(known, cross.T)
    means = np.array(prior) + weights.T @ missed
    own = np.array([together(one.parts, one.parts) for one in candidates])
    left = np.maximum(0.0, own - np.sum(cross * weights.T, axis=1))
    return [Belief(float(mean), sqrt(float(rest))) for mean, rest in zip(means, left, strict=True)]


def _spread(speedup: Interval, least: float) -> float:
    low, high = max(speedup.low, 1e-6), max(speedup.high, 1e-6)
    return max(least, (log(high) - log(low)) / (2 * _ENDS))
