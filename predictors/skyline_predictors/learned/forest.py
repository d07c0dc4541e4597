"""Boosted trees as tables of bits: lookups of the excluded leaves replace walking, and no library is needed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass

_ROWS_AT_ONCE = 64
"""Number of rows that are evaluated together: few enough for the working set to stay in the processor's cache."""
_ALL = np.uint64((1 << 64) - 1)
_ONE = np.uint64(1)
_MANTISSA_BITS, _BIAS = 52, 1023


@dataclass(frozen=True, slots=True)
class _Question:
    """All nodes that compare one feature: their sorted thresholds, and the leaves that remain possible between them.

    ``left`` has one row for each number of thresholds that a value exceeds. The row holds, by tree, the
    leaves that are then still possible, as bits.
    """

    feature: int
    thresholds: NDArray[np.float32]
    left: NDArray[np.uint64]


@dataclass(frozen=True)
class Forest:
    """Complete binary trees of one depth: ``feature`` and ``threshold`` by tree and inner node, ``value`` by leaf.

    Nodes are numbered by level. The children of node i are 2 i + 1 and 2 i + 2; a value above the threshold
    goes to the second. The answer is ``base`` plus the values of the leaves that are reached. A tree has at
    most 64 leaves.

    The leaf that is reached is the first one that no node excludes. A node that goes to its second child
    excludes all leaves of its first (QuickScorer; Lucchese et al., SIGIR 2015, section 3).
    """

    base: float
    feature: NDArray[np.uint8]
    threshold: NDArray[np.float32]
    value: NDArray[np.float32]

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """One answer for each row of features."""
        given = features.astype(np.float32)
        exceeded = [
            (np.searchsorted(one.thresholds, given[:, one.feature]), one.left) for one in self._questions
        ]
        trees, leaves = self.value.shape
        values, first = self.value.ravel(), np.arange(trees) * leaves
        answers = np.full(len(given), self.base)
        for start in range(0, len(given), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            possible = np.full((len(answers[rows]), trees), _ALL)
            for count, left in exceeded:
                possible &= left[count[rows]]
            # Isolates the lowest set bit. As a floating-point number, its exponent is the position of the
            # bit.
            lowest = (possible & (~possible + _ONE)).astype(np.float64)
            reached = (lowest.view(np.int64) >> _MANTISSA_BITS) - _BIAS
            answers[rows] += values.take(reached + first).sum(axis=1, dtype=np.float64)
        return answers

    @cached_property
    def _questions(self) -> list[_Question]:
        trees, inner = self.feature.shape
        ruled_out = _first_leaves(inner)
        found: list[_Question] = []
        for feature in np.unique(self.feature).tolist():
            tree, node = np.nonzero(self.feature == feature)
            thresholds, place = np.unique(self.threshold[tree, node], return_inverse=True)
            left = np.full((len(thresholds) + 1, trees), _ALL)
            np.bitwise_and.at(left, (place + 1, tree), ~ruled_out[node])
            np.bitwise_and.accumulate(left, axis=0, out=left)
            found.append(_Question(feature, thresholds, left))
        return found


def _first_leaves(inner: int) -> NDArray[np.uint64]:
    """The leaves below the first child of each node, as bits that start at the first leaf."""
    leaves = inner + 1
    found = np.empty(inner, np.uint64)
    for node in range(inner):
        level = (node + 1).bit_length() - 1
        below = leaves >> level
        begin = (node + 1 - (1 << level)) * below
        found[node] = ((1 << below // 2) - 1) << begin
    return found
