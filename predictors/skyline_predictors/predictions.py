"""Predictions for measured data: kernels by row, whole models by graph, from any installed predictor by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.predict.registry import predictors
from skyline.trace.record import OperatorShape
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.kernel_row import Row, shape_of
from skyline_predictors.whole_model import model_time

DEFAULT = "mixed"
_BUILT_IN = {
    "roofline": "skyline_predictors.roofline:Roofline",
    "learned": "skyline_predictors.learned.predictor:LearnedPredictor",
    "mixed": "skyline_predictors.mixed.by_format:ByFormat",
}
"""The predictors of this package, which are also found if it runs from its sources without installation."""


def all_predictors() -> dict[str, OperatorPredictor]:
    """The predictors of this package, then all others that are installed."""
    found: dict[str, OperatorPredictor] = {}
    for name, place in _BUILT_IN.items():
        module, _, attribute = place.partition(":")
        found[name] = getattr(import_module(module), attribute)()
    return {**found, **predictors()}


def predict_kernels(
    rows: Iterable[Row], predictor: str = DEFAULT, data_dir: str | Path | None = None
) -> list[float]:
    """The time of each measured kernel in ms, as timed from outside.

    Rows have the columns of the measured data (``op``, ``gpu`` and the sizes of the operator). Other columns
    are ignored. ``devices.csv`` in ``data_dir`` describes GPUs that the table of GPUs lacks.

    Raises:
        UsageError: the predictor or a GPU is not known, or a row lacks sizes.
    """
    chosen = _named(predictor)
    asked = list(rows)
    shapes = [shape_of(row) for row in asked]
    folder = Path(data_dir).resolve() if data_dir is not None else None
    by_gpu: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(asked):
        by_gpu[str(row.get("gpu", ""))].append(place)
    times = [0.0] * len(asked)
    for name, places in by_gpu.items():
        answers = measured_us(chosen, [shapes[place] for place in places], gpu_of(name, folder))
        for place, answer in zip(places, answers, strict=True):
            times[place] = answer / 1e3
    return times


def predict_graph(graph: str, gpu: str, data_dir: str | Path, predictor: str = DEFAULT) -> dict[str, float]:
    """The time of a whole model in ms: ``e2e_ms``, and its parts ``fw_ms`` and ``bw_ms`` (0 for inference).

    ``graph`` is a name in ``data_dir``'s operator graphs, ``gpu`` a name that the data use.

    Raises:
        UsageError: the predictor, the graph or the GPU is not known.
    """
    time = model_time(graph, gpu, Path(data_dir).resolve(), _named(predictor))
    return {"e2e_ms": time.whole.value, "fw_ms": time.forward_ms, "bw_ms": time.backward_ms}


def measured_us(predictor: OperatorPredictor, shapes: list[OperatorShape], device: GpuSpec) -> list[float]:
    """The time of each operator as it would be measured. A predictor may know about time outside the kernel."""
    own = getattr(predictor, "measured_us", None)
    if own is not None:
        return list(own(shapes, device))
    beside = getattr(predictor, "beside_us", None)
    return [
        answer.time_us.value + (beside(shape) if beside is not None else 0.0)
        for shape, answer in zip(shapes, predictor.predict(shapes, device), strict=True)
    ]


def intervals(
    predictor: OperatorPredictor, shapes: list[OperatorShape], device: GpuSpec
) -> list[tuple[float, float]]:
    """Low and high ends of the intervals of the same measurements, as factors on the values."""
    answers: list[OperatorTime] = list(predictor.predict(shapes, device))
    return [(one.time_us.low / one.time_us.value, one.time_us.high / one.time_us.value) for one in answers]


def _named(name: str) -> OperatorPredictor:
    known = all_predictors()
    if name in known:
        return known[name]
    raise UsageError(f"there is no predictor {name!r}", hint=f"Available: {', '.join(known)}.")
