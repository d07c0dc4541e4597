"""The content of single events, and events whose fields are not as they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

ReadEvents = Callable[..., ProfilerTrace]
ReadText = Callable[[str | bytes], ProfilerTrace]
Make = Callable[..., dict[str, Any]]


def names(trace: ProfilerTrace) -> list[str]:
    return [trace.name_of(row) for row in range(len(trace))]


def test_order_is_start_then_length_then_nesting(read_events: ReadEvents, make_op: Make) -> None:
    call = {**make_op("call", 10, 0), "cat": "cuda_runtime"}
    span = {**make_op("range", 10, 0), "cat": "user_annotation"}
    inner, outer = make_op("inner", 10, 0, External_id=5), make_op("outer", 10, 0, External_id=4)
    for one, number in ((inner, 5), (outer, 4)):
        one["args"]["External id"] = number
    trace = read_events(call, inner, outer, make_op("long", 10, 3), span, make_op("first", 0, 1))
    assert names(trace) == ["first", "long", "range", "outer", "inner", "call"]


def test_what_autograd_and_python_say(read_events: ReadEvents, make_op: Make) -> None:
    backward = make_op("MulBackward0", 0, 5)
    backward["args"] = {"Sequence number": 12, "Fwd thread id": 1, "Record function id": 30, "External id": 2}
    python = {**make_op("nn.Module: Linear_0", 1, 3), "cat": "python_function"}
    python["args"] = {"Python id": 4, "Python parent id": 3, "Python module id": 0}
    root = {
        **make_op("<module>", 2, 1),
        "cat": "python_function",
        "args": {"Python id": 3, "Python parent id": None},
    }
    stacked = make_op("aten::add", 3, 1)
    stacked["args"] = {"Call stack": "train.py(3): step;train.py(9): <module>", "Module Hierarchy": "Net.0"}
    trace = read_events(backward, python, root, stacked)
    assert trace.sequence.tolist() == [12, -1, -1, -1]
    assert trace.forward_thread.tolist() == [1, 0, 0, 0]
    assert trace.python_module.tolist() == [-1, 0, -1, -1]
    assert trace.strings[trace.stack[3]] == "train.py(3): step;train.py(9): <module>"
    assert trace.strings[trace.module_path[3]] == "Net.0"
    assert trace.strings[0] == ""


def test_one_call_may_start_several_kernels(read_events: ReadEvents, make_kernel: Make) -> None:
    trace = read_events(make_kernel("a", 0, 1, correlation=9), make_kernel("b", 2, 1, correlation=9))
    assert trace.correlation.tolist() == [9, 9]


def test_waits_and_collectives_follow_their_events(
    read_events: ReadEvents, make_op: Make, make_kernel: Make
) -> None:
    wait = {**make_kernel("Stream Wait Event", 5, 0), "cat": "cuda_sync"}
    wait["args"] = {
        "cuda_sync_kind": "Stream Wait Event", "stream": 20, "device": 0, "correlation": 4,
        "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3,
    }  # fmt: skip
    collective = make_op("record_param_comms", 8, 2)
    collective["args"] = {
        "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 100, "Out msg nelems": 100,
        "Group size": 4, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]",
    }  # fmt: skip
    trace = read_events(collective, make_op("a", 0, 1), wait)
    assert trace.waits.event.tolist() == [1]
    assert trace.stream[1] == 20
    assert (trace.waits.stream.tolist(), trace.waits.recorded_by.tolist()) == ([7], [3])
    found = trace.collectives
    assert found.event.tolist() == [2]
    assert found.elements_in.tolist() == [100]
    texts = [trace.strings[row[0]] for row in (found.name, found.element_type, found.group, found.ranks)]
    assert texts == ["allreduce", "Float", "0", "[0, 1, 2, 3]"]


def test_allocations(read_events: ReadEvents, make_op: Make) -> None:
    moment = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 13}
    on_gpu = {**moment, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 700}}
    on_host = {**moment, "ts": 12, "args": {"Device Type": 0, "Device Id": -1, "Bytes": -64}}
    found = read_events(on_gpu, on_host, make_op("a", 10, 5)).allocations
    assert found.time_us.tolist() == [2, 3]
    assert found.device.tolist() == [-1, 0]
    assert found.allocated_bytes.tolist() == [-1, 700]


@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", ["null", "NaN", "-inf", "[]", '"soon"', "1e999", "{}", None])
def test_an_event_without_a_usable_time_is_left_out(
    read_text: ReadText, field: str, value: str | None
) -> None:
    times = {"ts": "5", "dur": "1"}
    times.pop(field)
    if value is not None:
        times[field] = value
    bad = ", ".join(f'"{key}": {text}' for key, text in times.items())
    good = '{"ph": "X", "cat": "cpu_op", "name": "good", "pid": 1, "tid": 1, "ts": 0, "dur": 2}'
    trace = read_text(f'[{good}, {{"ph": "X", "cat": "cpu_op", "name": "bad", "pid": 1, "tid": 1, {bad}}}]')
    assert names(trace) == ["good"]
    assert [(note.text, note.count) for note in trace.notes] == [("Events without a start or a duration", 1)]


@pytest.mark.parametrize("duration", [-1, -0.001, 1.8e13])
def test_absurd_durations_are_left_out(read_events: ReadEvents, make_op: Make, duration: float) -> None:
    trace = read_events(make_op("good", 0, 1), make_op("bad", 1, duration))
    assert names(trace) == ["good"]
    assert "negative duration or one of over a day" in str(trace.notes[0])


def test_events_at_the_beginning_of_time_are_left_out(read_events: ReadEvents, make_op: Make) -> None:
    base = 1606910596350000
    trace = read_events(make_op("lost", 0, 1), make_op("a", base, 1), make_op("b", base + 5, 1))
    assert names(trace) == ["a", "b"]
    assert trace.base_ns == base * 1000
    assert trace.notes[0].count == 1


def test_numbers_as_texts_and_wrong_types(read_text: ReadText) -> None:
    trace = read_text(
        '[{"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": "12.5", "dur": "3",'
        ' "args": {"correlation": "44", "stream": 7.0, "device": null, "External id": "x", "bytes": [1]}},'
        ' {"ph": "X", "cat": "kernel", "name": 5, "pid": 0.0, "tid": null, "ts": 20, "dur": 1, "args": 3},'
        ' {"ph": 1, "args": "X"}, 17, null, "text", [{"ph": "X"}]]'
    )
    assert trace.correlation.tolist() == [44, 0]
    assert trace.stream.tolist() == [7, -1]
    assert names(trace) == ["a", ""]
    assert [(note.text, note.count) for note in trace.notes] == [
        ("Unreadable entries of the list of events", 4),
        ("Events without a category", 1),
    ]


def test_the_occupancy_of_kernels_is_below_zero_where_it_is_unknown(
    read_events: ReadEvents, make_kernel: Make
) -> None:
    known = make_kernel("a", 0, 1)
    known["args"]["est. achieved occupancy %"] = 38
    trace = read_events(known, make_kernel("b", 2, 1))
    assert trace.occupancy.tolist() == [38.0, -1.0]


def test_numbers_beyond_64_bits(read_events: ReadEvents, make_kernel: Make) -> None:
    strange = make_kernel("a", 0, 1, correlation=2**64 - 1, stream=2**40)
    other = make_kernel("b", 2, 1, stream=2**40 + 5)
    trace = read_events(strange, other)
    assert trace.correlation.tolist() == [0, 7]
    assert len(np.unique(trace.stream)) == 2
    assert (trace.stream >= 2**30).all()


@pytest.mark.parametrize("value", ["inf", "-nan", "NaN", "-nan(ind)", "Infinity"])
def test_bandwidths_that_are_no_json(read_text: ReadText, value: str) -> None:
    trace = read_text(
        '[{"ph": "X", "cat": "gpu_memset", "name": "set to nan", "pid": 0, "tid": 7, "ts": 1, "dur": 0,'
        f' "args": {{"bytes": 64, "correlation": 5, "memory bandwidth (GB/s)": {value}}}}}]'
    )
    assert trace.size_bytes.tolist() == [64]
    assert trace.correlation.tolist() == [5]
    assert names(trace) == ["set to nan"]


def test_strings_that_are_no_json(read_text: ReadText) -> None:
    event = b'[{"ph": "X", "cat": "cpu_op", "name": "%b", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]'
    assert names(read_text(event % rb"C:\User\new")) == ["C:\\User\new"]
    assert names(read_text(event % b"a\tb")) == ["a b"]
    assert names(read_text(event % b"caf\xe9")) == ["caf\ufffd"]


def test_operators_of_two_processes_are_remarked(read_events: ReadEvents, make_op: Make) -> None:
    trace = read_events(make_op("a", 0, 1), {**make_op("b", 0, 1), "pid": 2})
    assert len(trace) == 2
    assert str(trace.notes[0]) == "Processes whose operators the file holds: 2 (kept as it is)"
    assert trace.of(Category.CPU_OP).tolist() == [0, 1]
