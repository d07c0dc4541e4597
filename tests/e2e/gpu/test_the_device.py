"""The simulated GPU itself: as asynchronous, as particular and as full as a real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]

CHECKS = """
import json, os, time, torch
from torch import nn
told = {}
cuda = torch.cuda
x = torch.ones(256, 256, device="cuda")
cuda.synchronize()

def ms(act):
    start = time.perf_counter(); act(); return (time.perf_counter() - start) * 1e3

# 30 kernels of 1 ms: launching returns at once, waiting does not.
told["launch_ms"] = ms(lambda: [x.add_(1) for _ in range(30)])
told["wait_ms"] = ms(cuda.synchronize)

# The queue has 64 places: the host waits for one before each launch beyond.
told["full_queue_ms"] = ms(lambda: [x.add_(1) for _ in range(100)])
cuda.synchronize()

# A second stream works at the same time, unless it is told to wait.
side, begin, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
def on_both(wait):
    begin.record()
    for _ in range(10): x.add_(1)
    if wait: side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(10): x.mul(2)
        end.record()
    cuda.synchronize()
    return begin.elapsed_time(end)
told["beside_ms"], told["after_ms"] = on_both(False), on_both(True)

pinned = torch.zeros(64).pin_memory()
told["pinned"] = [pinned.is_pinned(), torch.zeros(64).is_pinned()]
for _ in range(10): x.add_(1)
told["pinned_copy_ms"] = ms(lambda: pinned.to("cuda", non_blocking=True))
told["blocking_copy_ms"] = ms(lambda: pinned.to("cuda"))

with torch.profiler.profile(activities=torch.profiler.supported_activities()) as recorded:
    with torch.profiler.record_function("span"):
        x.add_(1)
    torch._C._simulated_launch("triton_poi_0", 50, "cuLaunchKernelEx")
told["rows"] = sorted(
    (event.name(), event.is_user_annotation()) for event in recorded.profiler.kineto_results.events()
    if event.device_type() == torch.autograd.DeviceType.CUDA
)

graph, y = cuda.CUDAGraph(), torch.zeros(4, device="cuda")
with cuda.graph(graph):
    z = y + 1
    y.add_(z)
before = y.tolist()
graph.replay(); graph.replay()
told["replayed"] = [before, y.tolist(), z.tolist()]
try:
    with cuda.graph(cuda.CUDAGraph()):
        cuda.synchronize()
except RuntimeError as error:
    told["waits_in_capture"] = str(error)
    torch._C._CUDAGraph.capture_end(graph)

cuda.reset_peak_memory_stats()
held = cuda.memory_allocated()
big = torch.empty(1 << 20, device="cuda"); del big
told["peak"] = [cuda.max_memory_allocated() - held, cuda.memory_allocated() - held]
try:
    torch.empty(1 << 30, device="cuda")
except torch.OutOfMemoryError as error:
    told["full"] = str(error)[:18]

cuda.manual_seed(3); host = torch.get_rng_state()
state = cuda.get_rng_state(); first = torch.rand(3, device="cuda").tolist()
cuda.set_rng_state(state)
told["chance"] = [first == torch.rand(3, device="cuda").tolist(), torch.equal(host, torch.get_rng_state())]

if os.fork() == 0:
    try: torch.ones(1, device="cuda")
    except RuntimeError as error: os._exit(7 if "initialization" in str(error) else 8)
    os._exit(0)
told["fork"] = os.waitstatus_to_exitcode(os.wait()[1])
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return {}


@pytest.fixture
def answers(told: dict[str, Any], run_alone: Callable) -> dict[str, Any]:
    if not told:
        ran = run_alone(CHECKS, kernel_us=1000, queue=64, memory_mb=1024)
        assert ran.code == 0, ran.err
        told.update(json.loads(ran.out))
    return told


def test_the_host_runs_ahead_of_it(answers: dict[str, Any]) -> None:
    assert answers["wait_ms"] + answers["launch_ms"] > 30
    assert answers["launch_ms"] < answers["wait_ms"]


def test_a_full_queue_holds_up_the_host(answers: dict[str, Any]) -> None:
    # The 36 launches beyond the places of the queue begin as kernels of a millisecond end.
    assert answers["full_queue_ms"] > 34
    assert answers["launch_ms"] < 15


def test_streams_run_side_by_side_until_one_waits_for_the_other(answers: dict[str, Any]) -> None:
    # Ten kernels of a millisecond on each.
    assert answers["beside_ms"] < 15
    assert answers["after_ms"] > 20


def test_copies_from_pinned_memory_do_not_wait(answers: dict[str, Any]) -> None:
    assert answers["pinned"] == [True, False]
    assert answers["pinned_copy_ms"] < 4 < answers["blocking_copy_ms"]


def test_kineto_gets_what_cupti_would_tell(answers: dict[str, Any]) -> None:
    assert answers["rows"] == [
        ["span", True],
        ["triton_poi_0", False],
        ["void at::native::add__kernel", False],
    ]


def test_a_captured_graph_computes_when_it_is_replayed_and_allows_no_waiting(answers: dict[str, Any]) -> None:
    assert answers["replayed"] == [[1.0] * 4, [7.0] * 4, [4.0] * 4]
    assert "not permitted when stream is capturing" in answers["waits_in_capture"]


def test_its_memory_has_an_end(answers: dict[str, Any]) -> None:
    assert answers["peak"] == [4 << 20, 0]
    assert answers["full"] == "CUDA out of memory"


def test_it_has_random_numbers_of_its_own(answers: dict[str, Any]) -> None:
    assert answers["chance"] == [True, True]


def test_a_process_that_used_it_leaves_its_children_without_it(answers: dict[str, Any]) -> None:
    assert answers["fork"] == 7
