"""The same facts, as versions and makers since 2020 have written them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import HostThread, ProfilerTrace

ReadEvents = Callable[..., ProfilerTrace]
ReadText = Callable[[str | bytes], ProfilerTrace]
Make = Callable[..., dict[str, Any]]

OLD = [
    {"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 5, "tid": "2662278912", "ts": 1606910596350000,
     "dur": 40, "args": {"Input dims": [[2, 3]], "Device": 0, "External id": 9}},
    {"ph": "X", "cat": "Operator", "name": "ProfilerStep#4", "pid": 5, "tid": "2662278912",
     "ts": 1606910596349990, "dur": 100, "args": {"External id": 8}},
    {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": "2662278912",
     "ts": 1606910596350010, "dur": 5, "args": {"cbid": 211, "correlation": 77, "external id": 9}},
    {"ph": "X", "cat": "Kernel", "name": "add_kernel", "pid": 0, "tid": "stream 7", "ts": 1606910596350030,
     "dur": 20, "args": {"device": 0, "stream": 7, "correlation": 77, "external id": 9}},
    {"ph": "X", "cat": "Memset", "name": "Memset (Device)", "pid": 0, "tid": "stream 7",
     "ts": 1606910596350050, "dur": 2, "args": {"correlation": 78, "bytes": 64}},
    {"ph": "M", "name": "thread_name", "ts": 0, "pid": 5, "tid": "2662278912", "args": {"name": "thread 0 (python)"}},
    {"ph": "s", "id": 77, "pid": 5, "tid": 2662278912, "ts": 1606910596350010, "cat": "async", "name": "launch"},
    {"ph": "X", "cat": "Trace", "ts": 1606910596288053, "dur": 9000, "pid": "Traces", "tid": "PyTorch Profiler",
     "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
]  # fmt: skip


@pytest.mark.parametrize("bare", [True, False])
def test_capitalised_categories_of_2020_and_2021(read_text: ReadText, bare: bool) -> None:
    trace = read_text(json.dumps(OLD if bare else {"schemaVersion": 1, "traceEvents": OLD}))
    assert trace.dialect == ("2020" if bare else "2021")
    assert trace.vendor == "nvidia"
    assert [Category(kind) for kind in trace.category] == [
        Category.ANNOTATION, Category.CPU_OP, Category.RUNTIME, Category.KERNEL, Category.SET,
    ]  # fmt: skip
    assert trace.start_us.tolist() == [0, 10, 20, 40, 60]
    assert trace.threads == (HostThread("5", "2662278912", "thread 0 (python)"),)
    assert trace.stream.tolist() == [-1, -1, -1, 7, 7]
    assert trace.device.tolist() == [-1, -1, -1, 0, 0]
    assert trace.strings[trace.shapes[1]] == "[[2, 3]]"
    assert trace.size_bytes.tolist() == [0, 0, 0, 0, 64]
    assert trace.steps.number.tolist() == [4]
    assert trace.base_ns == 1606910596349990000
    assert trace.notes == ()


def test_the_exporter_before_kineto_wrote_no_categories(read_text: ReadText) -> None:
    events = (
        '{"name": "aten::mm", "ph": "X", "ts": 10.5, "dur": 4.0, "tid": 1, "pid": "CPU functions", "args": {}}, '
        '{"name": "gemm", "ph": "X", "ts": 12.5, "dur": 3.0, "tid": 0, "pid": "CUDA functions", "args": {}}, '
    )
    trace = read_text(f"[{events}]")
    assert trace.dialect == "autograd"
    assert [Category(kind) for kind in trace.category] == [Category.CPU_OP, Category.KERNEL]


def test_numbers_and_texts_mean_the_same_thread(read_events: ReadEvents, make_op: Make) -> None:
    other = {**make_op("b", 2, 1), "pid": "1", "tid": "1"}
    negative = {**make_op("c", 4, 1), "tid": -1107294656}
    trace = read_events(make_op("a", 0, 1), other, negative)
    assert trace.thread.tolist() == [0, 0, 1]
    assert trace.threads[1].id == "-1107294656"


def test_base_time_is_added(read_events: ReadEvents, make_op: Make) -> None:
    trace = read_events(make_op("a", 1419247332596.028, 1), baseTimeNanoseconds=1751410836000000000)
    assert trace.base_ns == 1751410836000000000 + 1419247332596028


def test_facts_as_json_inside_a_string(read_events: ReadEvents, make_op: Make) -> None:
    trace = read_events(
        make_op("a", 0, 1),
        distributedInfo='{"backend": "nccl", "rank": 2, "world_size": "8"}',
        deviceProperties='[{"id": 1, "name": "NVIDIA H100", "numSms": 132, "totalGlobalMem": 85018279936}]',
    )
    assert (trace.rank, trace.world_size) == (2, 8)
    assert (trace.devices[0].index, trace.devices[0].name, trace.devices[0].multiprocessors) == (
        1,
        "NVIDIA H100",
        132,
    )


@pytest.mark.parametrize("strange", [None, 7, "no json", [1, None, {}], {"rank": "first"}, "[[[["])
def test_strange_facts_are_as_good_as_none(read_events: ReadEvents, make_op: Make, strange: object) -> None:
    trace = read_events(
        make_op("a", 0, 1), distributedInfo=strange, deviceProperties=strange, baseTimeNanoseconds=strange
    )
    assert (trace.rank, trace.world_size, trace.devices) == (-1, 0, ())


def test_facts_after_the_events(read_text: ReadText, make_op: Make) -> None:
    events = json.dumps([make_op("a", 0, 1)])
    trace = read_text(
        f'\ufeff{{"traceEvents": {events}, "list": [{{"a": 1}}, {{"b": 2}}], "distributedInfo": {{"rank": 3}}}}'
    )
    assert trace.rank == 3
    assert trace.notes == ()


def test_who_and_where_is_not_kept(read_events: ReadEvents, make_op: Make) -> None:
    trace = read_events(
        make_op("a", 0, 1),
        distributedInfo={"rank": 0, "host": "node17.cluster"},
        host_name="node17", started_by="ada", job_id="4711", metadata={"user": "ada", "env": {"HOME": "/home/ada"}},
    )  # fmt: skip
    assert not [word for word in ("ada", "node17", "4711") if word in repr(trace)]
    assert not [word for word in ("ada", "node17", "4711") if word in " ".join(trace.strings)]


@pytest.mark.parametrize(
    ("category", "name", "expected"),
    [
        ("cuda_runtime", "hipLaunchKernel", Category.RUNTIME),
        ("hip_runtime", "hipLaunchKernel", Category.RUNTIME),
        ("xpu_runtime", "urEnqueueKernelLaunch", Category.RUNTIME),
        ("mtia_runtime", "launch", Category.RUNTIME),
        ("privateuse1_driver", "launch", Category.DRIVER),
        ("cuda_driver", "cuLaunchKernelEx", Category.DRIVER),
        ("overhead", "Activity Buffer Request", Category.OVERHEAD),
        ("mtia_ccp_events", "matmul", Category.KERNEL),
        ("made_up_work", "matmul", Category.KERNEL),
        ("Memcpy", "Memcpy HtoD", Category.COPY),
        ("gpu_user_annotation", "ProfilerStep#1", Category.GPU_ANNOTATION),
        ("cuda_sync", "Stream Sync", Category.SYNC),
    ],
)
def test_categories_of_all_makers(
    read_events: ReadEvents, make_op: Make, make_kernel: Make, category: str, name: str, expected: Category
) -> None:
    trace = read_events(make_op("a", 0, 50), {**make_kernel(name, 10, 5), "cat": category})
    assert [Category(kind) for kind in trace.category] == [Category.CPU_OP, expected]
    assert trace.vendor == {"hip": "amd", "cuL": "nvidia"}.get(name[:3], "")


def test_an_unknown_category_is_named(read_events: ReadEvents, make_op: Make) -> None:
    trace = read_events(make_op("a", 0, 50), {**make_op("b", 1, 2), "cat": "weather"})
    assert len(trace) == 1
    assert [str(note) for note in trace.notes] == ["Events of the unknown category weather: 1 (left out)"]


def test_steps_are_those_of_host_threads(read_events: ReadEvents, make_op: Make, make_kernel: Make) -> None:
    later = {**make_op("ProfilerStep#6", 100, 90), "cat": "user_annotation"}
    copy = {**make_kernel("ProfilerStep#6", 150, 120), "cat": "gpu_user_annotation"}
    earlier = make_op("ProfilerStep#5", 0, 100)
    nested = {**make_op("ProfilerStep#5", 10, 20), "cat": "user_annotation"}
    steps = read_events(later, copy, earlier, nested, make_op("ProfilerStepper", 0, 1)).steps
    assert steps.number.tolist() == [5, 6]
    assert steps.start_us.tolist() == [0, 100]
    assert steps.end_us.tolist() == [100, 190]
