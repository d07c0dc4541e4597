"""Whatever a trace holds, a graph comes of it that can be simulated and is no shorter than its parts."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyline.graph.from_kineto import built
from skyline.simulate.engine import simulate
from skyline.trace.kineto.reader import read

NAMES = {
    "cpu_op": ("aten::mm", "autograd::engine::evaluate_function: MmBackward0", "aten::item"),
    "user_annotation": (
        "ProfilerStep#1",
        "ProfilerStep#2",
        "Optimizer.step#SGD.step",
        "enumerate(DataLoader)#x",
    ),
    "cuda_runtime": (
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaStreamWaitEvent",
        "cudaGraphLaunch",
        "cudaEventQuery",
    ),
    "kernel": ("gemm", "ncclDevKernel_AllReduce"),
    "gpu_memcpy": ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)"),
}


@st.composite
def event(draw):
    category = draw(st.sampled_from(sorted(NAMES)))
    on_gpu = category in ("kernel", "gpu_memcpy")
    place = draw(st.integers(1, 3))
    args = {"correlation": draw(st.integers(0, 6))} if on_gpu or category == "cuda_runtime" else {}
    return {
        "ph": "X",
        "cat": category,
        "name": draw(st.sampled_from(NAMES[category])),
        "pid": 0 if on_gpu else 1,
        "tid": place,
        "ts": draw(st.integers(0, 40)),
        "dur": draw(st.integers(0, 20)),
        "args": args | ({"stream": place, "device": 0} if on_gpu else {}),
    }


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(event(), min_size=1, max_size=25))
def test_any_trace_becomes_a_graph(tmp_path, events) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    recorded = built(read(path))
    graph = recorded.graph
    timeline = simulate(graph)
    assert bool((graph.durations >= 0).all() and (graph.gaps >= 0).all())
    edges = graph.structure.dependencies
    assert bool((edges.source < edges.target).all())
    lanes = np.bincount(graph.tasks.lane, weights=graph.durations, minlength=len(graph.tasks.lanes))
    assert timeline.makespan_us >= lanes.max() - 1e-6
    assert len(recorded.event) == len(recorded.start_us) == len(graph)
    assert bool((np.asarray(timeline.starts)[recorded.steps.first] >= 0).all())
