"""A trace that PyTorch's profiler exported, as the objects that the profiler itself had made of the recording.

A trace in JSON is what the profiler's tree and list of events were written from. Here both are made again by the rules
of PyTorch's ``collection.cpp`` (``TransferEvents``, ``build_tree``), with the attributes that Python sees of them.
"""

from __future__ import annotations

import gzip
import heapq
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from torch.autograd import DeviceType

from skyline.trace.kineto.category import NAMED_RANGES

_KINDS = {
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "kernel": "kernel",
}
"""Names that categories had in 2021, and have now."""

_CALLS = ("cuda_runtime", "cuda_driver")
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync")
_HOST = ("cpu_op", "user_annotation", "python_function")
_FRAME = re.compile(r"(.*)\((\d+)\): (.*)")
_STARTS_FLOW = re.compile(
    r"cudaLaunch\w*|cudaMem(cpy|set)\w*|cudaGraphLaunch|cuLaunchKernel\w*|cuda\w*Synchronize|cudaStreamWaitEvent"
)


class Frame(NamedTuple):
    file_name: str
    line_number: int
    function_name: str


# The reader tells kinds of nodes apart by the names of these types.
@dataclass
class _ExtraFields_TorchOp:
    scope: str
    sequence_number: int
    forward_tid: int
    inputs: tuple[Any, ...] = ()


class _ExtraFields_Kineto:
    pass


@dataclass
class _ExtraFields_PyCall:
    callsite: Frame
    caller: Frame
    module: Any = None
    optimizer: Any = None


@dataclass
class _ExtraFields_PyCCall:
    caller: Frame


@dataclass(eq=False)
class Node:
    """A node of ``experimental_event_tree()``; from ``kind`` on what the profiler keeps to itself."""

    id: int
    name: str
    start_time_ns: int
    end_time_ns: int
    start_tid: int
    extra_fields: Any
    correlation_id: int
    kind: str
    thread: Any
    """As the operating system numbers it; of a device's event its stream."""
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    finished: bool = False
    linked: Node | None = None
    device: int = 0

    @property
    def on_device(self) -> bool:
        return self.kind in _ON_DEVICE


class EventOf21:
    """An event of ``kineto_results.events()`` as PyTorch 2.1 to 2.3 give it: in µs."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def name(self) -> str:
        return self.node.name

    def device_type(self) -> DeviceType:
        return DeviceType.CUDA if self.node.on_device else DeviceType.CPU

    def device_index(self) -> int:
        return self.node.device

    def device_resource_id(self) -> int:
        return self.node.thread

    def correlation_id(self) -> int:
        return self.node.correlation_id

    def linked_correlation_id(self) -> int:
        return 0 if self.node.linked is None else self.node.linked.correlation_id

    def start_thread_id(self) -> int:
        return self.node.start_tid

    def is_python_function(self) -> bool:
        return self.node.kind == "python_function"

    def start_us(self) -> int:
        return self.node.start_time_ns // 1000

    def duration_us(self) -> int:
        return (self.node.end_time_ns - self.node.start_time_ns) // 1000


class EventOf24(EventOf21):
    """As PyTorch 2.4 does: in ns."""

    start_us = duration_us = property()  # type: ignore[assignment]

    def start_ns(self) -> int:
        return self.node.start_time_ns

    def duration_ns(self) -> int:
        return self.node.end_time_ns - self.node.start_time_ns


class EventOf213(EventOf24):
    """As PyTorch does since 2.5."""

    def is_user_annotation(self) -> bool:
        return self.node.kind in ("user_annotation", "gpu_user_annotation")


VERSIONS = {"2.1": EventOf21, "2.4": EventOf24, "2.13": EventOf213}


class Recorded:
    """``nodes`` are all that were recorded, ``main`` is the number of the thread that profiled."""

    def __init__(self, nodes: list[Node], main: int) -> None:
        self.nodes = nodes
        self.main = main

    @classmethod
    def of(cls, path: Path, folder: Path, boundary: str) -> Recorded:
        """From a trace's file, with a ``boundary`` where its steps begin and where the last one ends.

        Files of Python that are not PyTorch's or the standard library's are the person's own: ``folder`` is to be
        where they lie, and gets an empty one of each.
        """
        data = json.loads(gzip.decompress(path.read_bytes()))
        events = data if isinstance(data, list) else data["traceEvents"]
        nodes, steps, main = _nodes([one for one in events if one.get("ph") == "X" and "dur" in one], folder)
        _name_backward_passes(nodes)
        if not any(node.kind == "python_function" for node in nodes):
            _add_frames(nodes, main, folder)
        for at_ns in steps:
            scope = _ExtraFields_TorchOp("RecordScope.USER_SCOPE", -1, 0)
            mark = Node(len(nodes), boundary, at_ns - 1, at_ns, main, scope, 0, "user_annotation", main)
            nodes.append(mark)
        return cls(nodes, main)

    @property
    def calls(self) -> list[int]:
        """Numbers of the runtime calls."""
        return [node.correlation_id for node in self.nodes if node.kind in _CALLS]

    def results(self, version: str) -> Any:
        """``kineto_results`` as that version of PyTorch gives them."""
        event = VERSIONS[version]
        for node in self.nodes:
            node.children, node.parent, node.finished = [], None, False
        _set_parents(self.nodes, self.main)
        _build_tree(self.nodes)
        roots = [node for node in self.nodes if node.parent is None and not node.on_device]
        events = [event(node) for node in self.nodes]
        return SimpleNamespace(experimental_event_tree=lambda: roots, events=lambda: events)


def _nodes(events: list[dict[str, Any]], folder: Path) -> tuple[list[Node], list[int], int]:
    """Nodes of a trace's events by time, the ends and beginnings of its steps, and the main thread's number."""
    host = [(one, _kind(one)) for one in events]
    operators = Counter(one["tid"] for one, kind in host if kind == "cpu_op")
    stepping = [one for one, kind in host if kind in _HOST and one["name"].startswith("ProfilerStep")]
    system_thread = stepping[0]["tid"] if stepping else _main(host)
    threads = {system_thread: 1}
    for one in operators:
        threads.setdefault(one, len(threads) + 1)
    nodes, linked = [], {}
    for one, kind in host:
        arguments = one.get("args") or {}
        begin = round(float(one["ts"]) * 1000)
        end = begin + round(float(one["dur"]) * 1000)
        if kind in _HOST:
            number = int(arguments.get("External id", 0))
            thread = one["tid"] if one["tid"] in threads else system_thread
        elif kind in (*_ON_DEVICE, *_CALLS):
            number = int(arguments.get("correlation", arguments.get("External id", 0)))
            thread = one["tid"]
        else:
            continue
        node = Node(
            len(nodes), one["name"], begin, end, threads.get(thread, 0), _ExtraFields_Kineto(), number, kind, thread
        )  # fmt: skip
        node.device = int(arguments.get("device", 0))
        if kind == "python_function":
            linked[arguments.get("Python id")] = node, arguments.get("Python parent id")
        elif kind in _HOST:
            scope = "RecordScope.USER_SCOPE" if kind == "user_annotation" else "RecordScope.FUNCTION"
            sequence = int(arguments.get("Sequence number", -1))
            forward = 1 if arguments.get("Fwd thread id") else 0
            node.extra_fields = _ExtraFields_TorchOp(scope, sequence, forward)
        nodes.append(node)
    _fill_frames(linked, folder)
    nodes.sort(key=lambda node: (node.start_time_ns, -node.end_time_ns))
    begins = sorted(round(float(one["ts"]) * 1000) for one in stepping)
    own = [
        node for node in nodes if node.start_tid == 1 and node.kind in ("cpu_op", "python_function", *_CALLS)
    ]
    # The script's thread has nothing to do any more: most profilers wait for the device before they stop.
    return (
        nodes,
        [*(begins or [own[0].start_time_ns - 1000]), max(node.end_time_ns for node in own) + 1000],
        1,
    )


def _name_backward_passes(nodes: list[Node]) -> None:
    """The outermost operators on autograd's thread, as their names have been since 2021."""
    engine = "autograd::engine"
    if any(node.name.startswith(engine) for node in nodes):
        return
    threads = {node.start_tid for node in nodes if node.name.startswith("torch::autograd::")}
    reached = dict.fromkeys(threads, 0)
    for node in nodes:
        if (
            node.kind == "cpu_op"
            and node.start_tid in threads
            and node.start_time_ns >= reached[node.start_tid]
        ):
            reached[node.start_tid] = node.end_time_ns
            node.name = f"{engine}::evaluate_function: {node.name}"


def _add_frames(nodes: list[Node], main: int, folder: Path) -> None:
    """Add the parts of every recording with stacks: the script's own frame, and the calls that wait for autograd.

    Such a call is where autograd's thread works and the script's does nothing.
    """
    path = folder / "train.py"
    path.touch()
    frame = Frame(str(path), 1, "<module>")
    own = [node for node in nodes if node.start_tid == main and not node.on_device]
    begin, end = nodes[0].start_time_ns - 2000, max(node.end_time_ns for node in own) + 2000
    outer = _ExtraFields_PyCall(frame, frame)
    made = [Node(len(nodes), "train.py(1): <module>", begin, end, main, outer, 0, "python_function", main)]
    threads = {node.start_tid for node in nodes if node.name.startswith("autograd::engine")} - {main}
    engine = sorted(
        (node.start_time_ns, node.end_time_ns)
        for node in nodes
        if node.start_tid in threads and not node.on_device
    )
    reached = begin
    for node in [*(node for node in own if node.kind != "user_annotation"), made[0]]:
        until = node.start_time_ns if node is not made[0] else end
        inside = engine[bisect_left(engine, (reached, 0)) : bisect_left(engine, (until, 0))]
        inside = [times for times in inside if times[1] <= until]
        if inside:
            span = inside[0][0] - 500, inside[-1][1] + 500
            waits = _ExtraFields_PyCCall(frame)
            name = "<built-in method run_backward of torch._C._EngineBase object>"
            number = len(nodes) + len(made)
            made.append(Node(number, name, *span, main, waits, 0, "python_function", main))
        reached = max(reached, node.end_time_ns)
    nodes.extend(made)
    nodes.sort(key=lambda node: (node.start_time_ns, -node.end_time_ns))


def _main(host: list[tuple[dict[str, Any], str]]) -> Any:
    """The thread with most operators that autograd's engine does not run on, where no steps tell."""
    engine = {one["tid"] for one, kind in host if kind == "cpu_op" and one["name"].startswith("autograd::")}
    own = Counter(one["tid"] for one, kind in host if kind == "cpu_op" and one["tid"] not in engine)
    [(thread, _)] = own.most_common(1)
    return thread


def _kind(event: dict[str, Any]) -> str:
    """The category as it is written now; ranges that PyTorch names itself were operators in 2021."""
    written = str(event.get("cat", "")).lower()
    kind = _KINDS.get(written, written)
    return "user_annotation" if kind == "cpu_op" and event["name"].startswith(NAMED_RANGES) else kind


def _fill_frames(calls: dict[Any, tuple[Node, Any]], folder: Path) -> None:
    """Set each Python call's function and caller; of a caller the trace has no line but the first of its function."""
    nowhere = Frame("torch/nowhere.py", 1, "nowhere")
    frames = {number: _frame(node.name, folder) for number, (node, _) in calls.items()}
    for number, (node, outer) in calls.items():
        above = outer
        while above in calls and frames[above] is None:
            above = calls[above][1]
        caller = frames.get(above) or nowhere
        own = frames[number]
        if node.name.startswith("nn.Module: "):
            name = node.name.partition(": ")[2]
            frame = Frame("torch/nn/modules/module.py", 1, "__call__")
            module = SimpleNamespace(self_ptr=hash(name), cls_name=name)
            node.extra_fields = _ExtraFields_PyCall(frame, caller, module)
        elif own is not None:
            node.extra_fields = _ExtraFields_PyCall(own, caller)
        else:
            node.extra_fields = _ExtraFields_PyCCall(caller)


def _frame(name: str, folder: Path) -> Frame | None:
    found = _FRAME.match(name)
    if found is None:
        return None
    file, line, function = found.groups()
    if not file.startswith(("torch/", "<")) and ("/" in file or file == "resnet.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return Frame(file, int(line), function)


def _set_parents(nodes: list[Node], main: int) -> None:
    """Hang Kineto's events from their operator or their launch; those without go to the profiling thread."""
    _link(nodes)
    flows = {
        node.correlation_id: node for node in nodes if node.kind in _CALLS and _STARTS_FLOW.match(node.name)
    }
    calls = {node.correlation_id: node for node in nodes if node.kind in _CALLS}
    for node in nodes:
        if type(node.extra_fields) is not _ExtraFields_Kineto:
            continue
        parent = None
        if node.kind != "gpu_user_annotation":
            if node.on_device and node.correlation_id in calls:
                node.linked = calls[node.correlation_id].linked
            parent = flows.get(node.correlation_id) if node.on_device else None
            parent = parent or node.linked
        if parent is not None:
            node.parent = parent
            parent.children.append(node)
            node.finished = True
    for node in nodes:
        if type(node.extra_fields) is _ExtraFields_Kineto:
            above = node.parent
            while (
                above is not None
                and above.parent is not None
                and type(above.extra_fields) is _ExtraFields_Kineto
            ):
                above = above.parent
            unknown = above is None or type(above.extra_fields) is _ExtraFields_Kineto
            node.start_tid = main if unknown else above.start_tid


def _link(nodes: list[Node]) -> None:
    """The operator of each runtime call: the innermost one around it on its thread."""
    threads = defaultdict(list)
    for node in nodes:
        if node.kind == "cpu_op" or node.kind in _CALLS:
            threads[node.thread].append(node)
    for own in threads.values():
        stack: list[Node] = []
        for node in sorted(own, key=lambda node: (node.start_time_ns, -node.end_time_ns)):
            while stack and stack[-1].end_time_ns < node.end_time_ns:
                stack.pop()
            if node.kind == "cpu_op":
                stack.append(node)
            elif stack:
                node.linked = stack[-1]


def _build_tree(nodes: list[Node]) -> None:
    """Nodes nest in what is open on their thread; with nothing open there, in what is on the forward pass's."""
    open_on: dict[int, Node] = {}
    ends: list[tuple[int, int, Node]] = []

    def pop(node: Node) -> None:
        if node.finished:
            return
        frame = open_on[node.start_tid]
        while frame is not node:
            frame.finished = True
            assert frame.parent is not None
            frame = frame.parent
        node.finished = True
        del open_on[node.start_tid]
        if node.parent is not None:
            open_on[node.start_tid] = node.parent

    for node in sorted(nodes, key=lambda node: (node.start_time_ns, -node.end_time_ns)):
        while ends and ends[0][0] < node.start_time_ns:
            pop(heapq.heappop(ends)[2])
        if type(node.extra_fields) is _ExtraFields_Kineto and node.finished:
            continue
        above = open_on.get(node.start_tid)
        if above is None and getattr(node.extra_fields, "forward_tid", 0):
            above = open_on.get(node.extra_fields.forward_tid)
        if above is not None:
            node.parent = above
            above.children.append(node)
        if node.end_time_ns > node.start_time_ns:
            open_on[node.start_tid] = node
            heapq.heappush(ends, (node.end_time_ns, node.id, node))
        else:
            node.finished = True
    while ends:
        pop(heapq.heappop(ends)[2])
