from __future__ import annotations

from skyline.graph.from_kineto import built
from skyline.graph.selection import select
from skyline.trace.record import CodeLine, Phase


def training(events):
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    return [
        events.note("ProfilerStep#1", 0, 200),
        events.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 9),
        events.event("python_function", "nn.Module: Net_0", 11, 29, Python_id=1, Python_module_id=1),
        events.event(
            "python_function",
            "nn.Module: Linear_0",
            15,
            15,
            Python_id=2,
            Python_parent_id=1,
            Python_module_id=2,
        ),
        events.op("aten::linear", 20, 9, Sequence_number=3, Fwd_thread_id=0),
        events.launch(21, 3, 1),
        events.op("aten::sum", 45, 5, Sequence_number=4, Fwd_thread_id=0),
        events.op(backward, 60, 30, thread=2, Sequence_number=3, Fwd_thread_id=1),
        events.launch(70, 3, 2, thread=2),
        events.note("Optimizer.step#SGD.step", 100, 50),
        events.op("aten::add_", 110, 10),
        events.op("aten::item", 160, 10),
        events.launch(161, 3, 3),
        events.kernel(30, 10, 1),
        events.kernel(80, 10, 2),
        events.kernel(175, 10, 3, stream=9, name="ncclDevKernel_AllReduce"),
    ]


def test_phases_by_ranges_and_threads(traced, events) -> None:
    graph = built(traced(*training(events))).graph
    phases = {(task.name, task.lane): task.phase for task in graph.tasks}
    assert phases["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "main"] is Phase.DATA
    assert phases["aten::linear", "main"] is Phase.FORWARD
    assert phases["autograd::engine::evaluate_function: AddmmBackward0", "thread 1"] is Phase.BACKWARD
    assert phases["aten::add_", "main"] is Phase.OPTIMIZER
    assert phases["aten::item", "main"] is Phase.OTHER
    assert [task.phase for task in graph.tasks if task.lane == "stream 7"] == [Phase.FORWARD, Phase.BACKWARD]
    assert phases["ncclDevKernel_AllReduce", "stream 9"] is Phase.COMMUNICATION


def test_layers_by_modules_and_backward_by_sequence_number(traced, events) -> None:
    graph = built(traced(*training(events))).graph
    of_layer = select(graph, layer="Net_0.Linear_0").tolist()
    assert {graph.tasks[one].name for one in of_layer} == {
        "aten::linear",
        "cudaLaunchKernel",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "k",
    }
    assert {graph.tasks[one].phase for one in of_layer} == {Phase.FORWARD, Phase.BACKWARD}


def test_lines_by_call_stacks(traced, events) -> None:
    library = "/usr/lib/python3/site-packages/torch/nn/f.py(9): linear"
    stack = f"{library};/project/net.py(12): forward;/project/train.py(30): main"
    graph = built(traced(events.op("aten::linear", 0, 10, Call_stack=stack))).graph
    (task,) = (task for task in graph.tasks if task.name == "aten::linear" and task.line >= 0)
    assert graph.structure.lines[task.line] == CodeLine("/project/net.py", 12, "forward")
    assert graph.structure.lines[task.call_line] == CodeLine("/project/train.py", 30, "main")


def test_iterations_by_steps(traced, events) -> None:
    graph = built(
        traced(
            events.op("aten::before", 0, 5),
            events.note("ProfilerStep#7", 10, 20),
            events.op("aten::one", 12, 5),
            events.note("ProfilerStep#8", 30, 20),
            events.op("aten::two", 32, 5),
            events.launch(33, 2, 1),
            events.kernel(60, 5, 1),
            events.op("aten::after", 80, 5),
        )
    ).graph
    found = {task.name: task.iteration for task in graph.tasks if not task.name.startswith(("step", "start"))}
    assert found == {
        "aten::before": 0,
        "aten::one": 0,
        "aten::two": 1,
        "cudaLaunchKernel": 1,
        "k": 1,
        "aten::after": 1,
    }
