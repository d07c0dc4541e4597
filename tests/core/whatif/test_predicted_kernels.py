"""What-ifs on a predicted profile ask the predictor about the changed operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorTime
from skyline.predict.predicted_times import timed
from skyline.trace.profile import Profile
from skyline.trace.record import IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif import predicted_kernels
from skyline.whatif.base import Grain
from skyline.whatif.catalogue.host.compile import fused_as_predicted
from skyline.whatif.catalogue.host.fusion import Group, Regions
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.question import Choice, Question

HOST = HostCost(0.1, 0.1, 0.1, 0.1, 0.0)
IMAGE, FILTERS = (64, 64, 56, 56), (64, 64, 3, 3)
CONVOLUTION = OperatorShape(
    "aten::convolution", (IMAGE, FILTERS), ("float32",) * 2, (IMAGE,), ("float32",), 10**10, 10**8
)
RELU = OperatorShape("aten::relu", (IMAGE,), ("float32",), (IMAGE,), ("float32",), 0, 10**8)
NORM = OperatorShape("aten::native_layer_norm", (IMAGE,), ("float32",), (IMAGE,), ("float32",), 0, 10**8)


class ByForm:
    """10 ms for any operator; a half in 16 bits, and a quarter less where images lie channels last."""

    name = "by form"

    def __init__(self) -> None:
        self.asked: list[tuple[OperatorShape, ...]] = []

    def basis(self, device: GpuSpec) -> str:
        return "a table"

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        self.asked.append(tuple(shapes))
        return [OperatorTime(Interval.exact(self._us(shape)), True) for shape in shapes]

    def _us(self, shape: OperatorShape) -> float:
        narrow = 0.5 if "bfloat16" in shape.dtypes else 1.0
        laid = 0.75 if shape.layout == "channels last" else 1.0
        return 10_000.0 * narrow * laid


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> ByForm:
    made = ByForm()
    monkeypatch.setattr(predicted_kernels, "predictors", lambda: {made.name: made})
    predicted_kernels._predicted.cache_clear()
    return made


@pytest.fixture
def predicted(profile: Profile, predictor: ByForm) -> Callable[..., Analysis]:
    def make(*shapes: OperatorShape) -> Analysis:
        records: list[Record] = []
        for number, _ in enumerate(shapes):
            start, lane = float(number), "cpu:main"
            phase = Phase.FORWARD
            records += [
                Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, lane, 0, start, 1.0, 1, -1, -1, number + 1),
                Record(
                    shapes[number].operator, RecordKind.KERNEL, phase, "gpu:0", 0, start + 0.5, 1.0, 1, -1, -1,
                    number + 1, number,
                ),
            ]  # fmt: skip
        trace = Trace(
            (IterationMark(0, 0.0, float(len(shapes))),), profile.trace.lines, (), tuple(records), (), shapes
        )
        traced = replace(profile, trace=trace, mode="predicted", trials=(), loaders=(), settings=None)
        return analyse(timed(traced, gpu_named("h100"), predictor, HOST))

    return make


def after(analysis: Analysis, *choices: Choice) -> float:
    return estimate(analysis, Question(choices=choices)).iteration_ms.value


def test_amp_takes_the_time_of_each_kernel_in_its_format(predicted: Callable[..., Analysis]) -> None:
    casts_ms = 1.0
    analysis = predicted(CONVOLUTION, RELU)
    assert analysis.baseline.iteration_ms.value == pytest.approx(20.0, rel=0.01)
    # Between products all kernels have 16 bits, where no norm computes in float32.
    assert 10.0 <= after(analysis, Choice("amp", "bf16")) < 10.0 + casts_ms


def test_norms_stay_wide_and_widen_what_follows(predicted: Callable[..., Analysis]) -> None:
    found = estimate(predicted(CONVOLUTION, RELU, NORM), Question(choices=(Choice("amp", "bf16"),)))
    # Of the rectifier's inputs, 0.7 have 16 bits: none at worst, all at best.
    assert found.iteration_ms.value == pytest.approx(5.0 + 6.5 + 10.0, abs=0.6)
    assert found.iteration_ms.low == pytest.approx(5.0 + 5.0 + 10.0, abs=0.6)
    assert found.iteration_ms.high == pytest.approx(5.0 + 10.0 + 10.0, abs=0.9)


def test_channels_last_is_asked_of_kernels_on_images(predicted: Callable[..., Analysis]) -> None:
    assert after(predicted(CONVOLUTION, RELU), Choice("channels_last")) == pytest.approx(15.0, rel=0.01)


def test_both_are_asked_together(predicted: Callable[..., Analysis]) -> None:
    both = after(predicted(CONVOLUTION, RELU), Choice("amp", "bf16"), Choice("channels_last"))
    assert 7.5 <= both < 8.5


def test_the_changed_step_is_asked_at_once(predicted: Callable[..., Analysis], predictor: ByForm) -> None:
    analysis = predicted(CONVOLUTION, RELU)
    before = len(predictor.asked)
    after(analysis, Choice("amp", "bf16"))
    narrow = [one for one in predictor.asked[before:] if any("bfloat16" in shape.dtypes for shape in one)]
    assert narrow
    assert all({shape.operator for shape in one} >= {"aten::convolution", "aten::relu"} for one in narrow)


def test_a_joined_kernel_takes_no_less_than_its_longest_part(predicted: Callable[..., Analysis]) -> None:
    subject = predicted(CONVOLUTION, RELU, RELU, RELU).baseline
    graph = subject.graph_of(Grain.OPERATORS)
    kernels = select(graph, kind=TaskKind.KERNEL, name="relu")[:3]
    group = Group(kernels, (RELU,) * 3, np.zeros(3, np.bool_), external_bytes=10**8)
    none = np.empty(0, np.int64)
    found = fused_as_predicted(
        subject, graph, Regions(none, none, none, (group,), kernels, none, 3.0, 0.0, 1, None)
    )
    assert found is not None
    assert found.heads.tolist() == [int(kernels[0])]
    assert found.likely.tolist() == pytest.approx([10_000.0], rel=0.01)


def test_a_measured_profile_asks_no_predictor(profile: Profile) -> None:
    subject = analyse(profile).baseline
    assert PredictedKernels.of(subject, subject.graph) is None
