"""The GPU's side of a recording, from events in the form that PyTorch's profiler gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType

from skyline.capture.child.recording.enrichment import enrich
from skyline.capture.child.recording.event_tree import EventTree
from skyline.capture.child.recording.nesting import nested
from skyline.capture.child.recording.operator_lines import OperatorLines
from skyline.capture.child.recording.recorder import Recorder, gpu_records


# The profiler distinguishes node kinds by the names of their fields' types.
@dataclass
class _ExtraFields_TorchOp:
    sequence_number: int = -1
    scope: str = "RecordScope.FUNCTION"
    inputs: tuple = ()


@dataclass
class _Frame:
    file_name: str = "torch/nowhere.py"
    line_number: int = 1
    function_name: str = "f"


@dataclass
class _ExtraFields_PyCCall:
    caller: _Frame = field(default_factory=_Frame)


@dataclass
class _ExtraFields_PyCall:
    callsite: _Frame
    caller: _Frame = field(default_factory=_Frame)
    module: object = None
    optimizer: object = None


@dataclass
class _ExtraFields_Kineto:
    pass


_ids = iter(range(10**6))


@dataclass
class Node:
    name: str
    start_us: float
    end_us: float
    extra_fields: object
    children: tuple = ()
    start_tid: int = 1
    correlation_id: int = 0
    id: int = field(default_factory=lambda: next(_ids))

    @property
    def start_time_ns(self) -> int:
        return int(self.start_us * 1000)

    @property
    def end_time_ns(self) -> int:
        return int(self.end_us * 1000)


class Event:
    """One event of ``kineto_results.events()``, of a device unless ``on`` says otherwise."""

    def __init__(
        self, name: str, at_us: float, lasts_us: float, correlation: int, *, linked: int = 0, resource: int = 7,
        on: DeviceType = DeviceType.CUDA, thread: int = 1, annotation: bool | None = False,
    ) -> None:  # fmt: skip
        self.node = Node(
            name, at_us, at_us + lasts_us, _ExtraFields_Kineto(), start_tid=thread, correlation_id=correlation
        )
        self.device_type = lambda: on
        self.name = lambda: name
        self.start_ns = lambda: self.node.start_time_ns
        self.duration_ns = lambda: self.node.end_time_ns - self.node.start_time_ns
        self.device_index = lambda: 0
        self.device_resource_id = lambda: resource
        self.correlation_id = lambda: correlation
        self.linked_correlation_id = lambda: linked
        self.start_thread_id = lambda: thread
        if annotation is not None:
            self.is_user_annotation = lambda: annotation


def operator_of(thread: int, resource: int) -> Event:
    """By which the reader knows that a thread of the operating system's is one of the tree's."""
    return Event("aten::relu", 0, 1, 990 + thread, resource=resource, on=DeviceType.CPU, thread=thread)


def call_of(node: Node, resource: int) -> Event:
    """The event of a runtime call that is in the tree."""
    lasts_us = node.end_us - node.start_us
    return Event(
        node.name, node.start_us, lasts_us, node.correlation_id, resource=resource, on=DeviceType.CPU
    )  # fmt: skip


def mark(at_us: float) -> Node:
    return Node("boundary", at_us - 1, at_us, _ExtraFields_TorchOp(scope="RecordScope.USER_SCOPE"))


def launch(at_us: float, correlation: int, name: str = "cudaLaunchKernel", thread: int = 1) -> Node:
    return Node(name, at_us, at_us + 5, _ExtraFields_Kineto(), start_tid=thread, correlation_id=correlation)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("x\n" * 50)
    return str(path)


def read(roots: list[Node], events: Sequence[Event] = ()) -> tuple[dict, list[dict]]:
    """The trace that the reader makes of a tree and events, and its rows of what the device did."""
    hosted, work = nested(roots, events)
    tree = EventTree(hosted, "boundary")
    trace = tree.trace(None, {}, "cuda")
    records = gpu_records(work, trace["records"], tree)
    return trace, records


def frame(script: str, *children: Node, line: int = 1, end_us: float = 1000) -> Node:
    """The script's own frame around all, with an iteration from 1 to 900 µs."""
    fields = _ExtraFields_PyCall(_Frame(script, line, "<module>"), _Frame(script, line))
    return Node("train.py(1): <module>", 0, end_us, fields, (mark(1), *children, mark(900)))


def python(name: str, start_us: float, end_us: float, file: str, caller: _Frame, *children: Node) -> Node:
    return Node(name, start_us, end_us, _ExtraFields_PyCall(_Frame(file, 1, name), caller), children)


def lines_of(trace: dict, rows: list[dict]) -> list[int]:
    return [trace["lines"][row["line"]]["line"] if row["line"] >= 0 else -1 for row in rows]


def training_step(script: str, *events: Event) -> tuple[dict, list[dict]]:
    """A forward operator on line 5, then line 6 waits while another thread works the way back."""
    forward = Node(
        "<built-in method linear of type object>", 100, 160, _ExtraFields_PyCCall(_Frame(script, 5)),
        (Node("aten::linear", 105, 155, _ExtraFields_TorchOp(sequence_number=3), (launch(120, 11),)),),
    )  # fmt: skip
    waiting = Node(
        "<built-in method run_backward of torch._C._EngineBase object>", 210, 590, _ExtraFields_PyCCall()
    )
    backward = Node(
        "torch/autograd/__init__.py(200): backward", 200, 600,
        _ExtraFields_PyCall(_Frame("torch/autograd/__init__.py", 200, "backward"), _Frame(script, 6)), (waiting,),
    )  # fmt: skip
    module = Node(
        "train.py(1): <module>", 0, 1000, _ExtraFields_PyCall(_Frame(script, 1, "<module>"), _Frame(script, 1)),
        (mark(1), forward, backward, mark(900)),
    )  # fmt: skip
    engine = Node(
        "autograd::engine::evaluate_function: AddmmBackward0", 250, 550, _ExtraFields_TorchOp(sequence_number=3),
        (launch(300, 12, thread=2),), start_tid=2,
    )  # fmt: skip
    return read([module, engine], events)


def time_by_line(trace: dict, lane: str = "cpu:main") -> dict[int, float]:
    found: dict[int, float] = {}
    for record in trace["records"]:
        if record["lane"] == lane:
            line = trace["lines"][record["line"]]["line"]
            found[line] = found.get(line, 0.0) + record["duration_us"]
    return found


def test_the_backward_thread_is_billed_to_the_forward_line(script: str) -> None:
    trace, _ = training_step(script)
    backward = sum(
        record["duration_us"]
        for record in trace["records"]
        if record["phase"] == "backward" and trace["lines"][record["line"]]["line"] == 5
    )
    assert backward == pytest.approx(300)
    assert {record["lane"] for record in trace["records"]} == {"cpu:main"}
    total = sum(time_by_line(trace).values())
    assert total == pytest.approx(trace["iterations"][0]["end_us"] - trace["iterations"][0]["start_us"])


def test_a_kernel_works_for_the_line_that_launched_it(script: str) -> None:
    trace, records = training_step(
        script,
        Event("sgemm", 130, 60, 11, linked=900),
        Event("wgrad", 310, 80, 12, linked=901),
        Event("aten::linear", 105, 50, 900, on=DeviceType.CPU),
    )
    assert [
        (r["name"], r["phase"], line) for r, line in zip(records, lines_of(trace, records), strict=True)
    ] == [
        ("sgemm", "forward", 5),
        ("wgrad", "backward", 5),
    ]
    assert {record["lane"] for record in records} == {"gpu0:stream7"}


def test_all_kernels_of_a_graph_work_for_its_launch(script: str) -> None:
    trace, records = training_step(script, *(Event(f"kernel{i}", 130 + 10 * i, 8, 11) for i in range(3)))
    assert lines_of(trace, records) == [5, 5, 5]
    assert {record["correlation"] for record in records} == {11}


@pytest.mark.parametrize(
    "name", ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", "ncclKernel_AllReduce_RING_LL"]
)
def test_collectives_are_communication_whoever_launched_them(script: str, name: str) -> None:
    _, [record] = training_step(script, Event(name, 320, 50, 12, resource=20))
    assert (record["phase"], record["lane"]) == ("communication", "gpu0:stream20")


@pytest.mark.parametrize("copy", ["Memcpy HtoD (Pageable -> Device)", "CopyHostToDevice", "FillBuffer"])
def test_copies_and_fills_are_told_from_kernels_and_nothing_outside_counts(script: str, copy: str) -> None:
    _, records = training_step(
        script, Event(copy, 50, 5, 90), Event("Memset (Device)", 60, 5, 91), Event("late", 5000, 5, 92)
    )
    assert [record["kind"] for record in records] == ["copy", "copy"]


def test_what_a_full_recording_knows_is_joined_to_a_light_one_with_kernels(script: str) -> None:
    full, light = (training_step(script, Event("sgemm", 130, 60, 11)) for _ in range(2))
    for trace, kernels in (full, light):
        trace["records"] += kernels
    assert enrich(light[0], full[0]) == 0
    assert [record["name"] for record in light[0]["records"] if record["kind"] == "kernel"] == ["sgemm"]


@pytest.mark.parametrize(
    "name", ["cudaDeviceSynchronize", "cudaGraphLaunch", "cuLaunchKernelEx", "hipModuleLaunchKernel"]
)
def test_calls_outside_of_operators_are_seen(script: str, name: str) -> None:
    """``torch.cuda.synchronize()``, ``CUDAGraph.replay()``, and Triton kernels launched by hand."""
    call = launch(110, 30, name)
    where = python("replay", 100, 200, "torch/cuda/graphs.py", _Frame(script, 7), call)
    trace, records = read([frame(script, where)], [Event("kernel", 120, 300, 30)])
    [row] = [record for record in trace["records"] if record["kind"] == "runtime"]
    assert (row["name"], row["lane"], row["start_us"], row["duration_us"]) == (name, "cpu:main", 109, 5)
    assert lines_of(trace, [row]) == lines_of(trace, records) == [7]
    assert_covered(trace)


@pytest.mark.parametrize("told", [True, False], ids=["2.5", "2.1"])
def test_spans_shown_on_the_device_are_no_calls_and_no_kernels(script: str, told: bool) -> None:
    """Theirs are the profiling thread's number and the device's times: Python nests in them, and ends them."""
    span = Event("step", 125, 400, 12, annotation=True if told else None)
    inner = python(
        "f", 150, 170, script, _Frame(script, 8), Node("aten::add", 155, 165, _ExtraFields_TorchOp())
    )
    span.node.children = (inner,)
    opened = Node("step", 90, 180, _ExtraFields_TorchOp(scope="RecordScope.USER_SCOPE"))
    operator = Node("aten::linear", 100, 140, _ExtraFields_TorchOp(), (launch(120, 11), span.node))
    kernel = Event("sgemm", 130, 60, 11, annotation=None if not told else False)
    trace, records = read(
        [frame(script, opened, operator)], [span, kernel, call_of(operator.children[0], 50)]
    )
    assert [record["name"] for record in records] == ["sgemm"]
    assert [r["name"] for r in trace["records"] if r["kind"] == "runtime"] == ["cudaLaunchKernel"]
    added = [record for record in trace["records"] if record["name"] == "aten::add"]
    assert lines_of(trace, added) == [1]
    assert_covered(trace)


def test_versions_before_2_4_count_in_microseconds(script: str) -> None:
    event = Event("sgemm", 130.7, 60, 11, annotation=None)
    for name, value in (("start_us", 130), ("duration_us", 60)):
        setattr(event, name, lambda value=value: value)
    del event.start_ns, event.duration_ns
    root = frame(
        script, Node("aten::linear", 100, 140, _ExtraFields_TorchOp(), (launch(120, 11), event.node))
    )
    trace, [record] = read([root], [event])
    assert (record["start_us"], record["duration_us"]) == (129, 60)
    assert [r["name"] for r in trace["records"] if r["kind"] == "runtime"] == ["cudaLaunchKernel"]


def test_what_other_threads_call_is_on_their_lanes(script: str) -> None:
    """A watchdog's calls have no operator around them: the tree has them as the profiling thread's."""
    mine, watching = (
        launch(120, 11),
        Node("cudaEventQuery", 100, 400, _ExtraFields_Kineto(), correlation_id=40),
    )
    operator = Node("aten::linear", 110, 150, _ExtraFields_TorchOp(), (mine,))
    events = [operator_of(1, 50), call_of(mine, 50), call_of(watching, 77)]
    trace, _ = read([frame(script, watching, operator)], events)
    lanes = {record["name"]: record["lane"] for record in trace["records"] if record["kind"] == "runtime"}
    assert lanes == {"cudaLaunchKernel": "cpu:main", "cudaEventQuery": "cpu:os77"}
    assert_covered(trace)


def test_calls_on_threads_with_operators_are_theirs(script: str) -> None:
    call = Node("cudaStreamSynchronize", 300, 320, _ExtraFields_Kineto(), correlation_id=40)
    operator = Node("aten::cat", 200, 250, _ExtraFields_TorchOp(), start_tid=3)
    trace, _ = read(
        [frame(script, call), operator], [operator_of(3, 60), operator_of(1, 50), call_of(call, 60)]
    )
    lanes = {record["name"]: record["lane"] for record in trace["records"] if record["lane"] != "cpu:main"}
    assert lanes == {"aten::cat": "cpu:3", "cudaStreamSynchronize": "cpu:3"}


def test_calls_noted_by_a_clock_that_is_off_are_cut(script: str) -> None:
    """A launch that seems to begin before its operator, and a wait that seems to begin within the one before."""
    early, late = (
        launch(98, 11),
        Node("cudaDeviceSynchronize", 138, 300, _ExtraFields_Kineto(), correlation_id=12),
    )
    operator = Node("aten::linear", 100, 140, _ExtraFields_TorchOp(), (late,))
    trace, _ = read([frame(script, early, operator)])
    calls = [record for record in trace["records"] if record["kind"] == "runtime"]
    assert [(c["name"], c["start_us"], c["start_us"] + c["duration_us"]) for c in calls] == [
        ("cudaLaunchKernel", 99, 102),
        ("cudaDeviceSynchronize", 139, 299),
    ]
    assert_covered(trace)


def test_a_driver_call_within_a_runtime_call_is_the_same_launch(script: str) -> None:
    outer, inner = launch(120, 11), launch(121, 12, "cuLaunchKernel")
    inner.end_us = 123
    operator = Node("aten::linear", 100, 140, _ExtraFields_TorchOp(), (outer, inner))
    trace, [record] = read([frame(script, operator)], [Event("sgemm", 130, 60, 12)])
    [call] = [row for row in trace["records"] if row["kind"] == "runtime"]
    assert (call["name"], call["correlation"]) == ("cudaLaunchKernel", 12)
    assert lines_of(trace, [record]) == [1]


def test_remarks_of_the_profiler_itself_are_no_calls(script: str) -> None:
    """A buffer of its own, a driver that compiles: they have no number, and overlap other calls."""
    remark = Node("Activity Buffer Request", 90, 160, _ExtraFields_Kineto(), correlation_id=(1 << 64) - 1)
    operator = Node("aten::linear", 100, 140, _ExtraFields_TorchOp(), (launch(120, 11),))
    trace, _ = read([frame(script, remark, operator)])
    assert [r["name"] for r in trace["records"] if r["kind"] == "runtime"] == ["cudaLaunchKernel"]
    assert_covered(trace)


def test_a_call_within_another_does_not_set_the_time_back(script: str) -> None:
    outer = Node("cudaLaunchKernelExC", 110, 150, _ExtraFields_Kineto(), correlation_id=1)
    inner = Node("cudaEventQuery", 115, 120, _ExtraFields_Kineto(), correlation_id=2)
    root = frame(script, Node("aten::linear", 100, 200, _ExtraFields_TorchOp(), (outer, inner)))
    trace = EventTree([root], "boundary").trace(None, {}, "cuda")
    own = [record["duration_us"] for record in trace["records"] if record["name"] == "aten::linear"]
    assert own == [10, 50]


def test_where_memory_alone_is_asked_for_no_device_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Python's frames a span shown on the device would be a root, and take what nests in it out of the tree."""
    asked: list[list[object]] = []
    monkeypatch.setattr(torch.profiler, "profile", lambda activities, **options: asked.append(activities))
    Recorder("cuda", 1)._new_profiler()
    Recorder("cuda", 1, operator_lines=OperatorLines(), samples=False)._new_profiler()
    assert [len(activities) for activities in asked] == [1, 2]


def assert_covered(trace: dict) -> None:
    """The main lane's records follow one another without holes and overlaps, from end to end."""
    [mark] = trace["iterations"]
    reached = mark["start_us"]
    for record in sorted(trace["records"], key=lambda record: record["start_us"]):
        if record["lane"] == "cpu:main":
            assert record["start_us"] == pytest.approx(reached, abs=0.01)
            reached = record["start_us"] + record["duration_us"]
    assert reached == pytest.approx(mark["end_us"], abs=0.01)
