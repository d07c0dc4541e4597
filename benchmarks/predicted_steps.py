"""The predicted time of published steps by the product's predictors, and by baselines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from operator import attrgetter

from image_rows import ImageRow, Programs
from operator_table import OperatorTable, TableRow

from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorPredictor
from skyline.trace.record import OperatorShape
from skyline_predictors.number_format import peak_tflops
from skyline_predictors.shape_reading import deciding_format

_step = attrgetter("step")


@dataclass(frozen=True, slots=True)
class Step:
    """One predicted step in ms. Its interval combines groups of operators as in the product."""

    value_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class Proportions:
    """The quantities that baselines scale, in ms: arithmetic over the peak of its format, and bytes over bandwidth."""

    flop_ms: float
    bytes_ms: float


def predicted_step(
    calls: Sequence[TableRow], shapes: Sequence[OperatorShape], gpu: GpuSpec, predictor: OperatorPredictor
) -> Step:
    """The time of the operators one after another, or of the host's launches if these take longer."""
    answers = predictor.predict(shapes, gpu)
    total = sum(call.count * answer.time_us.value for call, answer in zip(calls, answers, strict=True))
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    for call, answer in zip(calls, answers, strict=True):
        below[answer.group] += call.count * (answer.time_us.value - answer.time_us.low)
        above[answer.group] += call.count * (answer.time_us.high - answer.time_us.value)
    host = sum(call.count for call in calls) * HostCost().launch_us
    low = total - sqrt(sum(one**2 for one in below.values()))
    high = total + sqrt(sum(one**2 for one in above.values()))
    return Step(max(total, host) / 1e3, max(low, host / 2) / 1e3, max(high, host) / 1e3)


def proportions(calls: Sequence[TableRow], shapes: Sequence[OperatorShape], gpu: GpuSpec) -> Proportions:
    """The step's arithmetic and traffic at the peaks of the data sheet."""
    flop = moved = 0.0
    for call, shape in zip(calls, shapes, strict=True):
        if shape.flops:
            flop += call.count * shape.flops / (peak_tflops(gpu, deciding_format(shape)) * 1e9)
        moved += call.count * shape.bytes_moved
    return Proportions(flop, moved / (gpu.bandwidth_gb_s * 1e6))


@dataclass(frozen=True, slots=True)
class RowResult:
    """A published row with the prediction of each predictor."""

    row: ImageRow
    steps: dict[str, Step]
    proportions: Proportions
    table: OperatorTable


def row_results(
    rows: Sequence[ImageRow], programs: Programs, predictors: Mapping[str, OperatorPredictor]
) -> tuple[list[RowResult], dict[str, list[str]]]:
    """The results of all rows that can be traced, and the other models by reason."""
    found: list[RowResult] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    for _, group in groupby(sorted(rows, key=_step), key=_step):
        alike = list(group)
        table = programs.table(alike[0])
        if table is None:
            left_out[programs.store.why_missing(programs.key(alike[0]))] += [row.model for row in alike]
            continue
        calls = table.fused if alike[0].compiled else table.calls
        shapes = [call.at(alike[0].batch, alike[0].renamed) for call in calls]
        for row in alike:
            gpu = gpu_named(row.gpu)
            steps = {name: predicted_step(calls, shapes, gpu, one) for name, one in predictors.items()}
            found.append(RowResult(row, steps, proportions(calls, shapes, gpu), table))
    return found, dict(left_out)
