"""Profiles made by hand, so that every number in a test can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pytest

from skyline.graph.graph import Dependency, Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.source.knob import Knob, KnobKind, KnobSearch
from skyline.source.text import SourceSpan
from skyline.trace.facts import BatchFact, Device, Environment, LoaderFact, MemoryFact, OptimizerFact
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read
from skyline.trace.profile import CAPTURE_SCHEMA, Profile, SourceFile
from skyline.trace.record import (
    Allocation,
    BareTimes,
    CodeLine,
    IterationMark,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.trace.trial import Choices, Trial
from skyline.whatif.recorded import recorded
from skyline.whatif.subject import Subject

PUBLISHED = (
    "deepview_rtx3060ti_resnet50_run1", "hta_a100_inference_alexnet", "hta_a100_rank0of16_recsys",
    "hta_a100_rank3of8_recsys_control", "hta_gp100_mlp_train", "hta_v100_resnet50_ddp1",
    "kineto_2101_resnet50_workers0", "kineto_2101_resnet50_workers4",
    "kineto_2101b_resnet50_autogradapi_workers0", "kineto_2101b_resnet50_workers0",
    "kineto_2106_resnet50_workers0_run1", "param_dlrm_rank0of8", "param_dlrm_rank1of8",
    "param_dlrm_rank2of8", "param_dlrm_rank3of8", "tracelens_h100_bert_small_fwd", "tracelens_h100_vit_nsfw_fwd",
)  # fmt: skip
"""Names of the published traces among the measured data."""

SCRIPT = "/project/train.py"
SOURCE = """\
import torch
loader = DataLoader(data, batch_size=16)
optimizer = torch.optim.Adam(model.parameters())
for batch in loader:
    loss = model(batch)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
LOADER_LINE, OPTIMIZER_LINE, LOOP_LINE, FORWARD_LINE, BACKWARD_LINE, STEP_LINE, PRINT_LINE = (
    2,
    3,
    4,
    5,
    6,
    7,
    8,
)
MB = 1_000_000


def code_line(number: int) -> CodeLine:
    return CodeLine(SCRIPT, number, "train")


@dataclass(slots=True)
class TraceWriter:
    """Writes records one after another on lanes, minding the clock of each."""

    records: list[Record] = field(default_factory=list)
    clock_us: dict[str, float] = field(default_factory=dict)
    iteration: int = 0

    def write(
        self,
        name: str,
        kind: RecordKind,
        phase: Phase,
        duration_us: float,
        *,
        line: int = -1,
        lane: str = "main",
        at_us: float | None = None,
        correlation: int = 0,
    ) -> Record:
        start = self.clock_us.get(lane, 0.0) if at_us is None else at_us
        record = Record(
            name,
            kind,
            phase,
            lane,
            self.iteration,
            start,
            duration_us,
            line,
            -1,
            0 if line >= 0 else -1,
            correlation,
        )
        self.records.append(record)
        self.clock_us[lane] = record.end_us
        return record


def cpu_trace(iterations: int = 3) -> Trace:
    """Each iteration, as recorded: loader 2 ms, forward 3 ms, backward 4 ms, step 2 ms, print 1 ms."""
    writer = TraceWriter()
    marks: list[IterationMark] = []
    lines = tuple(code_line(n) for n in (LOOP_LINE, FORWARD_LINE, STEP_LINE, PRINT_LINE, BACKWARD_LINE))
    for index in range(iterations):
        writer.iteration = index
        begin = writer.clock_us.get("main", 0.0)
        writer.write("next", RecordKind.DATA, Phase.DATA, 2000, line=0)
        writer.write("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, 2000, line=1)
        writer.write("python", RecordKind.PYTHON, Phase.FORWARD, 400, line=1)
        writer.write("aten::relu", RecordKind.OPERATOR, Phase.FORWARD, 600, line=1)
        writer.write("AddmmBackward0", RecordKind.OPERATOR, Phase.BACKWARD, 3000, line=1)
        writer.write("python", RecordKind.PYTHON, Phase.BACKWARD, 1000, line=-1)
        for _ in range(4):
            writer.write("aten::mul_", RecordKind.OPERATOR, Phase.OPTIMIZER, 20, line=2)
            writer.write("aten::lerp_", RecordKind.OPERATOR, Phase.OPTIMIZER, 380, line=2)
            writer.write("python", RecordKind.PYTHON, Phase.OPTIMIZER, 100, line=2)
        writer.write("python", RecordKind.PYTHON, Phase.OTHER, 1000, line=3)
        marks.append(IterationMark(index, begin, writer.clock_us["main"]))
    return Trace(tuple(marks), lines, ("Linear",), tuple(writer.records), _allocations(marks[-1].start_us))


def _allocations(begin_us: float) -> tuple[Allocation, ...]:
    """Old gradients go, batch and activations come; backward work trades activations for new gradients."""
    return (
        Allocation(begin_us + 100, 4 * MB, 1, Phase.DATA, 0),
        Allocation(begin_us + 2100, -10 * MB, 99, Phase.FORWARD, 1),
        Allocation(begin_us + 2200, 30 * MB, 2, Phase.FORWARD, 1),
        Allocation(begin_us + 2300, 5 * MB, 3, Phase.FORWARD, 1),
        Allocation(begin_us + 2400, -5 * MB, 3, Phase.FORWARD, 1),
        Allocation(begin_us + 5500, 10 * MB, 4, Phase.BACKWARD, 1),
        Allocation(begin_us + 6000, -30 * MB, 2, Phase.BACKWARD, 1),
        Allocation(begin_us + 9500, -4 * MB, 1, Phase.OTHER, 3),
    )


def gpu_trace(iterations: int = 3, kernel_us: float = 500.0, kernels: int = 4) -> Trace:
    """Launches of 10 µs and Python of 40 µs, kernels that outlast them, and a synchronisation at the end."""
    writer = TraceWriter()
    marks: list[IterationMark] = []
    correlation = 0
    for index in range(iterations):
        writer.iteration = index
        begin = writer.clock_us.get("main", 0.0)
        for _ in range(kernels):
            correlation += 1
            launch = writer.write(
                "cudaLaunchKernel", RecordKind.RUNTIME, Phase.FORWARD, 10, line=1, correlation=correlation
            )
            begins = max(launch.start_us + 5, writer.clock_us.get("stream 7", 0.0))
            writer.write(
                "sgemm",
                RecordKind.KERNEL,
                Phase.FORWARD,
                kernel_us,
                line=1,
                lane="stream 7",
                at_us=begins,
                correlation=correlation,
            )
            writer.write("python", RecordKind.PYTHON, Phase.FORWARD, 40, line=1)
        call = writer.clock_us["main"]
        wait = max(0.0, writer.clock_us["stream 7"] - call)
        writer.write("cudaStreamSynchronize", RecordKind.RUNTIME, Phase.OTHER, wait + 8, line=3)
        marks.append(IterationMark(index, begin, writer.clock_us["main"]))
    lines = tuple(code_line(n) for n in (LOOP_LINE, FORWARD_LINE, STEP_LINE, PRINT_LINE))
    return Trace(tuple(marks), lines, ("Linear",), tuple(writer.records))


def bare(step: float, data: float, backward: float, optimizer: float, count: int = 9) -> BareTimes:
    """Steps that agree but for a steady wobble of a percent, which leaves the medians as given."""
    wobble = [1 + (index - count // 2) / 100 / count for index in range(count)]
    return BareTimes(
        tuple(step * w for w in wobble),
        tuple(data * w for w in wobble),
        tuple(backward * w for w in wobble),
        tuple(optimizer * w for w in wobble),
    )


def sized(batch_size: int, ratio: float, peak_mb: int, shares: tuple[float, float, float]) -> Trial:
    data, backward, optimizer = (10 * ratio * share for share in shares)
    ratios = tuple(ratio * (1 + offset / 100) for offset in (-2, -1, -1, 0, 0, 0, 1, 1, 2))
    times = bare(10 * ratio, data, backward, optimizer)
    return Trial(Choices(batch_size=batch_size), times, ratios, peak_bytes=peak_mb * MB)


def cpu_profile() -> Profile:
    """10 ms bare: loader 2, backward 3, optimizer 2, rest 3. Batch 16; 8 and 32 measured, affine but for the step."""
    knob = Knob("batch_size", 16, KnobKind.CALL_ARGUMENT, SourceSpan(SCRIPT, 2, 37, 2, 39), "16")
    parameter_count = 2_500_000
    return Profile(
        schema=CAPTURE_SCHEMA,
        id="a1",
        created="2026-01-02T03:04:05+00:00",
        script=SCRIPT,
        arguments=(),
        working_directory="/project",
        interpreter="/usr/bin/python3",
        environment=Environment(Device("Test CPU", "cpu"), "3.11.2", "2.6.0+cpu", "linux", 4, 2, 1000 * MB),
        sources=(SourceFile(SCRIPT, "0" * 64, SOURCE),),
        times=bare(10.0, 2.0, 3.0, 2.0),
        warmup_iterations=3,
        recorded_ms=(12.0, 12.0, 12.0),
        trace=cpu_trace(),
        memory=MemoryFact(10 * MB, 10 * MB, 20 * MB, 1 * MB),
        peak_bytes=75 * MB,
        batch=BatchFact((16,), 16),
        knobs=KnobSearch((knob,)),
        batch_size=16,
        trials=(sized(8, 0.6, 58, (1 / 6, 0.25, 1 / 3)), sized(32, 1.8, 109, (2 / 9, 1 / 3, 1 / 9))),
        optimizers=(
            OptimizerFact(
                "Adam", 1, 4, parameter_count, 20 * MB, {}, code_line(STEP_LINE), code_line(OPTIMIZER_LINE)
            ),
        ),
        loaders=(LoaderFact(16, 0, 10_000, 1.0, created_line=code_line(LOADER_LINE)),),
        loop_line=code_line(LOOP_LINE),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a published trace in one worker, which reads it once."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and "published" in call.params:
            item.add_marker(pytest.mark.xdist_group(call.params["published"]))


class Published:
    """A published trace, read and simulated when that is first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".json.gz")

    @cached_property
    def trace(self) -> ProfilerTrace:
        return read(self.path)

    @cached_property
    def subject(self) -> Subject:
        return recorded(self.trace)


@pytest.fixture(scope="session", params=PUBLISHED)
def published(request: pytest.FixtureRequest, shared_data: Path) -> Published:
    """Each published trace, shared by all tests of it; ``indirect`` parameters name some of them."""
    path = shared_data / "traces" / f"{request.param}.json.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    return Published(path)


@pytest.fixture
def profile() -> Profile:
    return cpu_profile()


@pytest.fixture
def gpu_profile() -> Profile:
    made = cpu_profile()
    device = replace(made.environment, device=Device("Test GPU", "cuda"))
    return replace(
        made, environment=device, trace=gpu_trace(), times=bare(2.013, 0.0, 0.0, 0.0), loaders=(), trials=()
    )


@pytest.fixture
def recorded_gpu() -> Callable[..., Trace]:
    return gpu_trace


@pytest.fixture
def chain() -> Callable[..., Graph]:
    """Builds a graph from (lane, duration) pairs, in order, and dependencies."""

    def make(
        *work: tuple[str, float], gaps: dict[int, float] | None = None, waits: tuple[Dependency, ...] = ()
    ):
        tasks = tuple(
            Task(f"t{index}", TaskKind.CPU, WorkClass.OTHER, lane, Phase.FORWARD, 0, line=index)
            for index, (lane, _) in enumerate(work)
        )
        given = gaps or {}
        return Graph(
            Structure(tasks, waits),
            tuple(duration for _, duration in work),
            tuple(given.get(index, 0.0) for index in range(len(work))),
        )

    return make
