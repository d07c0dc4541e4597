"""Predicted operator times on hardware that this machine does not have: a table of GPUs, and several predictors.

``predict_kernels`` and ``predict_graph`` answer for rows of measured data. Both are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyline_predictors.predictions import predict_graph, predict_kernels

__all__ = ["predict_graph", "predict_kernels"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skyline_predictors import predictions

    return getattr(predictions, name)
