"""Boosted trees as arrays: all trees of all operators walk down a level at a time, without a library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 64
"""Few enough that what is looked at stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Complete binary trees of one depth: ``feature`` and ``threshold`` by tree and inner node, ``value`` by leaf.

    Nodes are numbered by level; the children of node i are 2 i + 1 and 2 i + 2, and what is above the threshold goes
    to the second. The answer is ``base`` plus the values of the leaves that are reached.
    """

    base: float
    feature: NDArray[np.uint8]
    threshold: NDArray[np.float32]
    value: NDArray[np.float32]

    def predict(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """One answer for each row of features."""
        answers = np.empty(len(features))
        given = features.astype(np.float32)
        asked = self.feature.ravel().astype(np.intp)
        for start in range(0, len(given), _ROWS_AT_ONCE):
            answers[start : start + _ROWS_AT_ONCE] = self._walk(given[start : start + _ROWS_AT_ONCE], asked)
        return answers

    def _walk(self, rows: NDArray[np.float32], asked: NDArray[np.intp]) -> NDArray[np.float64]:
        # Tree by tree, so that the nodes of one are at hand while all rows pass it; indices as wide as NumPy has them.
        trees, inner = self.feature.shape
        flat = np.ascontiguousarray(rows).ravel()
        tree = np.arange(trees)[:, None]
        row_start = np.arange(len(rows)) * rows.shape[1]
        thresholds = self.threshold.ravel()
        # All rows are at the root: whole columns are compared.
        node = (tree * inner + 1) + (rows.T[self.feature[:, 0]] > self.threshold[:, :1])
        to_children = 1 - tree * inner
        for _ in range((inner + 1).bit_length() - 2):
            place = asked.take(node)
            place += row_start
            above = flat.take(place) > thresholds.take(node)
            node += node
            node += to_children
            node += above
        node += tree - inner
        return np.asarray(self.base + self.value.ravel().take(node).sum(axis=0, dtype=np.float64))
