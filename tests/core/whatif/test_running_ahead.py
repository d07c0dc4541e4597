"""A measured GPU profile: each recorded iteration was waited for, and the script itself does not wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.recording import ChildRecording, notes_on
from skyline.findings.bounds import busy_share
from skyline.findings.registry import find
from skyline.graph.build import build
from skyline.graph.launching import ending_waits, one_iteration_ahead
from skyline.simulate.engine import steady_step_ms
from skyline.trace.facts import Device, LoaderFact, MemoryFact
from skyline.trace.profile import BareTimes, Profile
from skyline.trace.record import CodeLine, IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import detected_in
from skyline.whatif.registry import whatifs

MAIN, STREAM = "cpu:main", "gpu0:stream7"
LATENCY_US = 5.0


def recorded(data_us: float, host_us: float, gpu_us: float, wait: str = "cudaDeviceSynchronize") -> Trace:
    """Three iterations, each with a batch, one launch, the host's other work, and a wait for the kernel."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    now = 0.0

    def host(
        name: str, kind: RecordKind, phase: Phase, duration_us: float, line: int, number: int = 0
    ) -> None:
        nonlocal now
        index = len(marks)
        records.append(
            Record(name, kind, phase, MAIN, index, now, duration_us, line=line, correlation=number)
        )
        now += duration_us

    for index in range(3):
        begin = now
        host("next", RecordKind.DATA, Phase.DATA, data_us, 0)
        host("cudaLaunchKernel", RecordKind.RUNTIME, Phase.FORWARD, 5.0, 1, index + 1)
        start = now - 5.0 + LATENCY_US
        kernel = Record("sgemm", RecordKind.KERNEL, Phase.FORWARD, STREAM, index, start, gpu_us, line=1)
        records.append(replace(kernel, correlation=index + 1))
        host("aten::add_", RecordKind.OPERATOR, Phase.OPTIMIZER, host_us, 2)
        host(wait, RecordKind.RUNTIME, Phase.OPTIMIZER, max(0.0, start + gpu_us - now) + 8, 2)
        marks.append(IterationMark(index, begin, now))
    lines = tuple(CodeLine("/project/train.py", line) for line in (3, 4, 5))
    return Trace(tuple(marks), lines, (), tuple(records))


@pytest.fixture
def measured(profile: Profile) -> Callable[..., Profile]:
    def make(trace: Trace, step_ms: float) -> Profile:
        steps = tuple(step_ms * (1 + wobble / 1000) for wobble in (-2, -1, 0, 1, 2))
        none = (0.0,) * len(steps)
        device = replace(profile.environment, device=Device("Test GPU", "cuda"))
        return replace(
            profile, trace=trace, times=BareTimes(steps, none, none, none), environment=device, trials=()
        )

    return make


@pytest.mark.parametrize(
    ("data_us", "host_us", "gpu_us", "bound"),
    [(10_000, 5_000, 12_000, "data"), (100, 5_000, 12_000, "gpu_compute"), (100, 9_000, 3_000, "cpu")],
)
def test_an_iteration_takes_what_the_busier_side_does(
    measured: Callable[..., Profile], data_us: float, host_us: float, gpu_us: float, bound: str
) -> None:
    free_ms = max(data_us + host_us + 5, gpu_us) / 1e3
    start = baseline(measured(recorded(data_us, host_us, gpu_us), free_ms))
    assert start.replay_error < 0.01
    assert start.simulated_ms == pytest.approx(free_ms, rel=0.01)
    # The host keeps its time: what was waited for in the recording is not taken off it.
    own = start.graph.durations[start.graph.tasks.lane == start.graph.tasks.lane_code(MAIN)]
    assert own.sum() / 3e3 == pytest.approx((data_us + host_us) / 1e3, rel=0.03)
    path = start.critical_path
    assert path is not None
    shares = {name: getattr(path, name) for name in ("data", "gpu_compute", "cpu")}
    assert max(shares, key=lambda name: shares[name]) == bound
    assert busy_share(start) == pytest.approx(gpu_us / 1e3 / free_ms, rel=0.1)


def test_lines_and_phases_are_those_of_the_gpu_while_it_works(measured: Callable[..., Profile]) -> None:
    analysis = analyse(measured(recorded(100, 5_000, 12_000), 12.0))
    assert analysis.phases.forward == pytest.approx(12.0, rel=0.05)
    [dearest, *_] = analysis.lines
    assert (dearest.line, round(dearest.self_ms)) == (4, 12)


def test_what_ends_a_recorded_iteration_waits_for_the_one_before() -> None:
    graph = build(recorded(100, 5_000, 12_000), merged=False)
    waits = ending_waits(graph, MAIN)
    assert len(waits) == 3
    ahead = one_iteration_ahead(graph, MAIN)
    awaited = [
        (ahead.tasks[edge.source].iteration, ahead.tasks[edge.target].iteration)
        for edge in ahead.structure.dependencies
        if edge.target in waits
    ]
    assert awaited == [(0, 1), (1, 2)]
    assert steady_step_ms(ahead) == pytest.approx(12.0, rel=0.01)


def test_a_wait_of_the_scripts_own_stays() -> None:
    graph = build(recorded(10_000, 5_000, 12_000, wait="cudaStreamSynchronize"), merged=False)
    assert len(ending_waits(graph, MAIN)) == 0
    assert steady_step_ms(one_iteration_ahead(graph, MAIN)) == pytest.approx(22.018, rel=0.01)


# A GPU that the profiler was not allowed to see.


def unseen(trace: Trace) -> Trace:
    return replace(trace, records=tuple(one for one in trace.records if one.kind is not RecordKind.KERNEL))


def test_a_gpu_that_was_not_recorded_is_not_called_idle(measured: Callable[..., Profile]) -> None:
    seen = recorded(100, 9_000, 3_000)
    assert "SKY201" in {finding.code for finding in find(baseline(measured(seen, 9.1)))}
    start = baseline(measured(unseen(seen), 9.1))
    assert (start.on_gpu, start.gpu_recorded) == (True, False)
    assert not [finding for finding in find(start) if finding.code.startswith(("SKY2", "SKY3"))]
    for name in ("amp", "compile", "cuda_graphs", "remove_sync", "gpu", "tf32"):
        found = detected_in(start, whatifs()[name])
        assert not found.applicable
        assert "skyline doctor" in found.reason


def test_a_note_says_so() -> None:
    trace = recorded(100, 9_000, 3_000)
    recording = ChildRecording(trace, (9.1,), MemoryFact(0, 0, 0, 0), 0)
    assert notes_on(recording, "cuda") == ()
    blind = replace(recording, trace=unseen(trace))
    assert "none of the GPU's work" in notes_on(blind, "cuda")[0]
    assert notes_on(blind, "cpu") == ()


@pytest.mark.parametrize(
    ("data_us", "host_us", "gpu_us", "first"),
    [(10_000, 3_000, 2_000, "SKY101"), (100, 9_000, 3_000, "SKY201"), (100, 3_000, 12_000, None)],
)
def test_the_first_finding_is_about_what_bounds_the_script(
    measured: Callable[..., Profile], data_us: float, host_us: float, gpu_us: float, first: str | None
) -> None:
    made = measured(recorded(data_us, host_us, gpu_us), max(data_us + host_us + 5, gpu_us) / 1e3)
    times = replace(made.times, data_ms=(data_us / 1e3,) * len(made.times.steps_ms))
    loader = LoaderFact(16, 0, 10_000, 1.0)
    found = find(baseline(replace(made, times=times, loaders=(loader,))))
    codes = [finding.code for finding in found if finding.code in ("SKY101", "SKY201", "SKY202")]
    assert codes[:1] == ([] if first is None else [first])
