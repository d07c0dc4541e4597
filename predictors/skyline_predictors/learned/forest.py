"""Boosted trees as arrays: all trees of all operators walk down a level at a time, without a library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ROWS_AT_ONCE = 128
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
        for start in range(0, len(given), _ROWS_AT_ONCE):
            answers[start : start + _ROWS_AT_ONCE] = self._walk(given[start : start + _ROWS_AT_ONCE])
        return answers

    def _walk(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        trees, inner = self.feature.shape
        flat = np.ascontiguousarray(rows).ravel()
        first = (np.arange(trees, dtype=np.int32) * inner)[None, :]
        row_start = (np.arange(len(rows), dtype=np.int32) * rows.shape[1])[:, None]
        node = np.zeros((len(rows), trees), dtype=np.int32)
        features, thresholds = self.feature.ravel(), self.threshold.ravel()
        levels = (inner + 1).bit_length() - 1
        for _ in range(levels):
            at = first + node
            above = flat.take(row_start + features.take(at)) > thresholds.take(at)
            node = 2 * node + 1 + above
        leaf = node - inner + (np.arange(trees, dtype=np.int32) * (inner + 1))[None, :]
        return np.asarray(self.base + self.value.ravel().take(leaf).sum(axis=1, dtype=np.float64))
