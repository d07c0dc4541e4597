"""Compilation and capture of a recorded script, and obstacles to them."""

from __future__ import annotations

import pytest

from skyline.analysis.estimate import answer
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs


def without_reading(event):
    """Nothing waits for the GPU in a pass."""
    reads = event["name"] == "aten::item" or (event.get("args") or {}).get("correlation", 0) % 100 in (30, 31)
    return None if reads else event


def shaped(event):
    """The third step's batch is smaller."""
    if event["name"] != "aten::linear":
        return event
    size = 16 if event["ts"] // 1000 == 2 else 32
    return {**event, "args": {**event["args"], "Input Dims": [[size, 64], [64, 64]]}}


def test_a_graph_holds_one_shape(changed):
    assert whatifs()["cuda_graphs"].detect(changed(without_reading)).applicable
    found = whatifs()["cuda_graphs"].detect(
        changed(lambda event: (kept := without_reading(event)) and shaped(kept))
    )
    assert not found.applicable
    assert "shapes differ" in found.reason


def test_compiled_again_for_each_shape_may_bring_nothing(changed):
    found = answer(changed(shaped), [Choice("compile")])
    assert found.iteration_ms.high >= 1.0


@pytest.mark.parametrize("name", ["fbgemm::bounds_check", "c10d::allreduce_", "record_param_comms"])
@pytest.mark.parametrize("change", ["compile", "cuda_graphs"])
def test_other_libraries_operators_and_collectives_keep_their_time(changed, name, change):
    def other(event):
        kept = without_reading(event)
        return {**kept, "name": name} if kept is not None and kept["name"] == "aten::relu" else kept

    recording = changed(other)
    before, after = recording.graph, compose(recording, [Choice(change)]).scenario.graph
    own = select(before, name=name, kind=TaskKind.CPU)
    assert len(own)
    assert after.durations[own].sum() >= before.durations[own].sum()


def test_broken_graphs_may_bring_nothing(changed):
    def other(event):
        return {**event, "name": "fbgemm::dense"} if event["name"] == "aten::relu" else event

    found = answer(changed(other), [Choice("compile")])
    assert found.change_ms.high >= 0


def test_a_gpu_that_works_all_the_time_gains_by_compiling_what_its_pointwise_kernels_move_twice(changed):
    """Two kernels between products become one that takes as long as the longer one: without shapes, no less."""

    def busy(event):
        if event["cat"] == "kernel" and "relu_kernel" in event["name"]:
            return {**event, "dur": 25}
        return event

    def second(step):
        at, number = 1000 * step, 100 * step + 90
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 432,
                  "dur": 4, "args": {"correlation": number}}  # fmt: skip
        kernel = {"ph": "X", "cat": "kernel", "name": "vectorized_elementwise_kernel", "pid": 0, "tid": 7,
                  "ts": at + 500, "dur": 20, "args": {"correlation": number, "stream": 7, "device": 0}}  # fmt: skip
        return [launch, kernel]

    recording = changed(busy, [one for step in range(5) for one in second(step)])
    graph = compose(recording, [Choice("compile")]).scenario.graph
    joined = select(graph, name=("relu_kernel", "vectorized_elementwise_kernel"), phase=recording.graph.tasks[
        int(select(recording.graph, name="relu_kernel")[0])].phase)  # fmt: skip
    assert graph.durations[joined].sum() / 5 >= 25
