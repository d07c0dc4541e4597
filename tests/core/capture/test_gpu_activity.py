"""The GPU's side of a recording, from events in the form that PyTorch's profiler gives them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from torch.autograd import DeviceType

from skyline.capture.child.recording.event_tree import EventTree
from skyline.capture.child.recording.gpu_events import gpu_records


# The profiler's node kinds are told apart by the names of their fields' types.
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


@dataclass
class Activity:
    """One event of ``kineto_results.events()``."""

    label: str
    at_us: float
    lasts_us: float
    correlation: int
    linked: int = 0
    stream: int = 7
    on: DeviceType = DeviceType.CUDA

    def device_type(self) -> DeviceType:
        return self.on

    def name(self) -> str:
        return self.label

    def start_ns(self) -> int:
        return int(self.at_us * 1000)

    def duration_ns(self) -> int:
        return int(self.lasts_us * 1000)

    def device_index(self) -> int:
        return 0

    def device_resource_id(self) -> int:
        return self.stream

    def correlation_id(self) -> int:
        return self.correlation

    def linked_correlation_id(self) -> int:
        return self.linked


def mark(at_us: float) -> Node:
    return Node("boundary", at_us - 1, at_us, _ExtraFields_TorchOp(scope="RecordScope.USER_SCOPE"))


def launch(at_us: float, correlation: int, name: str = "cudaLaunchKernel") -> Node:
    return Node(name, at_us, at_us + 5, _ExtraFields_Kineto(), correlation_id=correlation)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("x\n" * 50)
    return str(path)


def training_step(script: str) -> tuple[EventTree, dict]:
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
        (launch(300, 12),), start_tid=2,
    )  # fmt: skip
    tree = EventTree([module, engine], "boundary")
    return tree, tree.trace(None, {}, "cuda")


def time_by_line(trace: dict, lane: str = "cpu:main") -> dict[int, float]:
    found: dict[int, float] = {}
    for record in trace["records"]:
        if record["lane"] == lane:
            line = trace["lines"][record["line"]]["line"]
            found[line] = found.get(line, 0.0) + record["duration_us"]
    return found


def test_the_backward_thread_is_billed_to_the_forward_line(script: str) -> None:
    _, trace = training_step(script)
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
    tree, trace = training_step(script)
    events = [
        Activity("sgemm", 130, 60, 11, linked=900),
        Activity("wgrad", 310, 80, 12, linked=901),
        Activity("boundary", 0, 800, 5),
        Activity("aten::linear", 105, 50, 900, on=DeviceType.CPU),
    ]
    records = gpu_records(events, trace["records"], tree)
    assert [(r["name"], r["phase"], trace["lines"][r["line"]]["line"]) for r in records] == [
        ("sgemm", "forward", 5),
        ("wgrad", "backward", 5),
    ]
    assert {record["lane"] for record in records} == {"gpu0:stream7"}


def test_all_kernels_of_a_graph_work_for_its_launch(script: str) -> None:
    tree, trace = training_step(script)
    events = [Activity(f"kernel{i}", 130 + 10 * i, 8, 11) for i in range(3)]
    records = gpu_records(events, trace["records"], tree)
    assert {trace["lines"][record["line"]]["line"] for record in records} == {5}
    assert {record["correlation"] for record in records} == {11}


@pytest.mark.parametrize(
    "name", ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", "ncclKernel_AllReduce_RING_LL"]
)
def test_collectives_are_communication_whoever_launched_them(script: str, name: str) -> None:
    tree, trace = training_step(script)
    [record] = gpu_records([Activity(name, 320, 50, 12, stream=20)], trace["records"], tree)
    assert (record["phase"], record["lane"]) == ("communication", "gpu0:stream20")


def test_copies_and_fills_are_told_from_kernels_and_nothing_outside_counts(script: str) -> None:
    tree, trace = training_step(script)
    events = [
        Activity("Memcpy HtoD (Pageable -> Device)", 50, 5, 90),
        Activity("Memset (Device)", 60, 5, 91),
        Activity("late", 5000, 5, 92),
    ]
    assert [r["kind"] for r in gpu_records(events, trace["records"], tree)] == ["copy", "copy"]


@pytest.fixture
def recorded(shared_data: Path) -> list[dict]:
    """Events of a recording that others made and published."""
    path = shared_data / "traces" / "hta_v100_resnet50_ddp1.json.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not on this machine")
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_recorded_kernels_find_their_launches(recorded: list[dict]) -> None:
    """Runtime calls and GPU activity of a real recording, put through the same code."""
    complete = [event for event in recorded if event.get("ph") == "X" and "dur" in event]
    calls = [
        e for e in complete if e.get("cat") in ("cuda_runtime", "Runtime") and "correlation" in e["args"]
    ]
    first = min(float(event["ts"]) for event in calls)
    nodes = tuple(
        Node(e["name"], float(e["ts"]) - first + 10, float(e["ts"]) - first + 10 + float(e["dur"]),
             _ExtraFields_Kineto(), correlation_id=int(e["args"]["correlation"]))
        for e in calls
    )  # fmt: skip
    end = max(node.end_us for node in nodes) + 10**6
    operator = Node("aten::step", 5, end - 5, _ExtraFields_TorchOp(), nodes)
    tree = EventTree([mark(1), operator, mark(end)], "boundary")
    trace = tree.trace(None, {}, "cuda")
    activities = [
        Activity(e["name"], float(e["ts"]) - first + 10, float(e["dur"]), int(e["args"]["correlation"]),
                 stream=int(e["args"].get("stream", 0)))
        for e in complete
        if str(e.get("cat")).lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
    ]  # fmt: skip
    records = gpu_records(activities, trace["records"], tree)
    launches = {record["correlation"] for record in trace["records"] if record["kind"] == "runtime"}
    kernels = [record for record in records if record["kind"] == "kernel"]
    assert len(kernels) > 1000
    assert sum(record["correlation"] in launches for record in kernels) > 0.95 * len(kernels)
