from __future__ import annotations

import json

import numpy as np
import pytest

from skyline.errors import UsageError
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.report.timelines import sides_of
from skyline.simulate.engine import simulate
from skyline.trace.kineto.reader import read
from skyline.whatif.recorded import recorded


def test_steps_are_as_marked_and_the_inner_ones_count(gpu) -> None:
    assert gpu.recorded.steps_ms == (1.0,) * 5
    assert gpu.count == 3
    assert gpu.iteration_ms.value == 1.0
    assert gpu.replay_error < 0.02


def test_the_unchanged_graph_takes_what_the_steps_took(gpu, cpu) -> None:
    for one in (gpu, cpu):
        assert (
            one.step_ms(one.graph)
            == one.recorded.settled_ms
            == pytest.approx(one.iteration_ms.value, rel=0.02)
        )
        assert not one.gpu_lags


def test_a_script_that_runs_ahead_is_held_by_its_gpu(gpu) -> None:
    kernels = select(gpu.graph, kind=TaskKind.KERNEL)
    slow = scale(gpu.graph, kernels, 10.0)
    busy = slow.durations[kernels].sum() / 5e3
    # The markers of its steps do not tell: only what the stream is busy for does.
    assert gpu.step_ms(slow) >= busy


def test_a_recording_that_ends_before_its_gpu_does(changed) -> None:
    end = 5000

    def longer(event):
        nonlocal end
        # Nothing waits for the GPU, whose kernels follow one another and take four times as long.
        if (
            event["name"] in ("cudaStreamSynchronize", "cudaMemcpyAsync", "aten::item")
            or "memcpy" in event["cat"]
        ):
            return None
        if event["cat"] == "kernel":
            begin, end = end, end + 4 * event["dur"]
            return {**event, "ts": begin, "dur": 4 * event["dur"]}
        return event

    one = changed(longer)
    assert one.iteration_ms.value == 1.0
    assert one.gpu_lags
    assert one.running_ms.value == pytest.approx(4 * (60 + 30 + 40 + 120 + 4 * 8) / 1e3, rel=0.02)
    begin, end = one.window_us
    assert begin >= 4000
    work = select(one.graph, kind=TaskKind.KERNEL)
    inside = (one.timeline.starts[work] >= begin) & (one.timeline.ends[work] <= end)
    assert inside.sum() >= 3 * 8


def test_what_the_gpu_does_behind_the_last_step_is_shown_with_it(changed) -> None:
    def late(event):
        # One step is marked, and its kernels run two milliseconds behind their launches.
        if event["name"].startswith("ProfilerStep") and not event["name"].endswith("#4"):
            return None
        if event["name"] in ("cudaStreamSynchronize", "cudaMemcpyAsync", "aten::item"):
            return None
        if event["cat"] in ("kernel", "gpu_memcpy"):
            return {**event, "ts": event["ts"] + 2000}
        return event

    one = changed(late)
    sides = sides_of(one)
    stream = [name for name in sides.measured.lanes if "stream" in name]
    assert stream
    code = sides.measured.lanes.index(stream[0])
    behind = sides.measured.start_ms[sides.measured.lane == code]
    assert behind.max() > sides.measured.duration_ms
    assert sides.end_ms > sides.measured.duration_ms
    # Before others the next step's work stands there.
    whole = sides_of(changed(lambda event: event))
    assert whole.measured.start_ms.max() <= whole.measured.duration_ms


def test_without_steps_the_whole_recording_is_one(changed) -> None:
    marks = ("ProfilerStep", "enumerate", "Optimizer")
    one = changed(lambda event: None if event["name"].startswith(marks) else event)
    assert not one.recorded.has_steps
    assert one.count == 1
    assert one.recorded.steps_ms[0] == pytest.approx(4.615)
    assert one.recorded.settled_ms == pytest.approx(one.recorded.steps_ms[0], rel=0.02)


def test_steps_are_found_again_where_tasks_were_added(gpu) -> None:
    from skyline.whatif.cost.fetching import with_workers

    answer = with_workers(gpu.recorded.trace, gpu.recorded.kineto, 2)
    assert len(answer.graph) > len(gpu.graph)
    first, last = gpu.recorded.ends_in(answer.graph)
    starts = simulate(answer.graph).starts
    assert np.allclose(starts[last] - starts[first], answer.step_us)


def made_of(path, *events):
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}), encoding="utf-8")
    return read(path)


def event(category, name, begin, duration, **args):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": duration, "args": args
    }  # fmt: skip


STEPS = [event("user_annotation", f"ProfilerStep#{number}", 10 * number, 10) for number in range(4)]


@pytest.mark.parametrize(
    "events",
    [
        [event("cpu_op", "aten::add", 0, 10)],
        STEPS,
        [*STEPS[:2], event("cpu_op", "aten::mm", 12, 3)],
        [event("kernel", "gemm", 0, 10, stream=7, device=0), event("kernel", "add", 10, 5, stream=7, device=0)],
        [event("cuda_runtime", "cudaDeviceSynchronize", 0, 5, correlation=1)],
        [event("user_annotation", "Optimizer.step#Adam.step", 10 * n, 9) for n in range(5)],
        [event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10 * n, 9)
         for n in range(5)],
    ],
)  # fmt: skip
def test_traces_with_next_to_nothing_in_them(tmp_path, events) -> None:
    from msgspec.json import encode

    from skyline.report.answers import answers_report
    from skyline.report.perfetto_traced import side_by_side
    from skyline.report.traced import trace_report

    one = recorded(made_of(tmp_path / "trace.json", *events))
    assert one.running_ms.value > 0
    assert b"NaN" not in encode(trace_report(one, "trace.json")) + encode(answers_report(one))
    assert side_by_side(one, "trace.json")


@pytest.mark.parametrize(
    "events",
    [
        [event("cpu_op", "aten::add", 0, 0)],
        [event("python_function", "train.py(1): main", 0, 10)],
        [event("user_annotation", "ProfilerStep#1", 0, 0)],
    ],
)
def test_traces_in_which_nothing_takes_time(tmp_path, events) -> None:
    with pytest.raises(UsageError, match="takes time"):
        recorded(made_of(tmp_path / "trace.json", *events))
