"""Boosting by scikit-learn, converted into trees that need no library to predict. Only training imports this."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyline.errors import UsageError
from skyline_predictors.learned.forest import Forest

Floats = NDArray[np.float64]
DEPTH = 6
TREES = 250
RATE = 0.08
LEAST_ROWS = 40


def boosted(features: Floats, target: Floats, weight: Floats, *, trees: int = TREES) -> Forest:
    """Trees that minimise the weighted squared error of ``target``.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    try:
        from sklearn.ensemble import (  # pyright: ignore[reportMissingImports]
            HistGradientBoostingRegressor,
        )
    except ImportError:
        raise UsageError(
            "training needs scikit-learn", hint="pip install 'skyline-profiler[train]'"
        ) from None
    seen = features.astype(np.float32).astype(float)
    fitted = HistGradientBoostingRegressor(
        max_iter=trees,
        learning_rate=RATE,
        max_depth=DEPTH,
        max_leaf_nodes=None,
        min_samples_leaf=LEAST_ROWS,
        l2_regularization=2.0,
        max_bins=127,
        early_stopping=False,
        random_state=0,
    ).fit(seen, target, sample_weight=weight / weight.mean())
    inner = (1 << DEPTH) - 1
    feature = np.zeros((trees, inner), dtype=np.uint8)
    threshold = np.full((trees, inner), np.inf, dtype=np.float32)
    value = np.zeros((trees, inner + 1), dtype=np.float32)
    for number, (grown,) in enumerate(fitted._predictors):
        _lay_out(grown.nodes, feature[number], threshold[number], value[number])
    # The last digits of the mean depend on the number of threads.
    base = round(float(np.ravel(fitted._baseline_prediction)[0]), 9)
    forest = Forest(base, feature, threshold, value)
    some = seen[:: max(1, len(seen) // 500)]
    if not np.allclose(forest.predict(some), fitted.predict(some), atol=2e-3):
        raise UsageError(
            "the trees of this scikit-learn are laid out in another way than this program knows",
            hint="requirements/constraints.txt names the version that `make train-predictors` installs.",
        )
    return forest


def _lay_out(nodes: NDArray[np.void], feature: NDArray, threshold: NDArray, value: NDArray) -> None:
    """Copy a tree of any form into a complete one. All leaves below an early leaf get its value."""
    waiting = [(0, 0)]
    while waiting:
        node, place = waiting.pop()
        one = nodes[node]
        if one["is_leaf"]:
            first, last = place, place
            while first < len(feature):
                first, last = 2 * first + 1, 2 * last + 2
            value[first - len(feature) : last + 1 - len(feature)] = one["value"]
        else:
            feature[place] = one["feature_idx"]
            threshold[place] = one["num_threshold"]
            waiting += [(int(one["left"]), 2 * place + 1), (int(one["right"]), 2 * place + 2)]
