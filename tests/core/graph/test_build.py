from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.build import build, main_lane
from skyline.graph.graph import Cause, phase_times
from skyline.graph.task import Part, TaskKind, part_shares
from skyline.graph.threads import thread_use
from skyline.simulate.engine import replay_error, simulate
from skyline.trace.record import BareTimes, IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.calibration import calibrate


def test_the_main_lane_is_where_the_host_works(profile, recorded_gpu):
    assert main_lane(profile.trace) == "main"
    assert main_lane(recorded_gpu(kernel_us=5000)) == "main"


def test_no_recorded_time_is_lost(profile):
    graph = build(profile.trace)
    assert sum(graph.durations) + sum(graph.gaps) == pytest.approx(3 * 12_000)


def test_python_time_is_the_gap_of_the_work_before_it(profile):
    graph = build(profile.trace)
    forward = next(i for i, task in enumerate(graph.tasks) if task.name == "aten::linear")
    assert (graph.durations[forward], graph.gaps[forward]) == (2000, 400)


def test_python_time_of_another_line_keeps_its_own_cost(profile):
    graph = build(profile.trace)
    printing = [i for i, task in enumerate(graph.tasks) if task.line == 3]
    assert [(graph.durations[i], graph.gaps[i]) for i in printing] == [(0, 1000)] * 3


def test_like_tasks_are_merged_and_counted(profile):
    graph = build(profile.trace)
    steps = [i for i, task in enumerate(graph.tasks) if task.name == "aten::mul_"]
    assert [(graph.tasks[i].count, graph.durations[i], graph.gaps[i]) for i in steps] == [(8, 1600, 400)] * 3


def test_calibration_gives_every_part_its_bare_time_in_every_iteration(profile):
    targets = {part: share * 10.0 for part, share in part_shares(profile.times).items()}
    graph = calibrate(build(profile.trace), "main", targets)
    phases = phase_times(graph, "main")
    assert (phases.data, phases.backward, phases.optimizer) == pytest.approx((2.0, 3.0, 2.0))
    # The remaining 3 ms are split as they were recorded: forward 3 ms, printing 1 ms.
    assert (phases.forward, phases.other) == pytest.approx((2.25, 0.75))
    assert simulate(graph).iteration_ms("main") == pytest.approx(10.0)


def test_a_part_that_was_not_told_apart_shares_the_rest(profile):
    times = BareTimes((12.0,), (0.0,), (0.0,), (0.0,))
    graph = calibrate(build(profile.trace), "main", {p: s * 12 for p, s in part_shares(times).items()})
    assert phase_times(graph, "main").backward == pytest.approx(4.0)


def test_bare_time_without_records_becomes_a_task_of_no_line(profile):
    trace = profile.trace
    loaderless = type(trace)(
        trace.iterations,
        trace.lines,
        trace.modules,
        tuple(record for record in trace.records if record.kind.value != "data"),
    )
    graph = calibrate(build(loaderless), "main", {p: s * 10 for p, s in part_shares(profile.times).items()})
    unrecorded = [task for task in graph.tasks if task.name == "unrecorded"]
    assert len(unrecorded) == 3
    assert all(task.line == -1 and task.kind is TaskKind.DATA for task in unrecorded)
    assert phase_times(graph, "main").total == pytest.approx(10.0)


def test_part_shares_sum_to_one_even_when_parts_overlap():
    shares = part_shares(BareTimes((10.0,), (6.0,), (6.0,), (0.0,)))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares[Part.REST] == 0


def test_short_operators_do_not_count_as_parallel(profile):
    assert thread_use(profile.trace).split == pytest.approx((2000 + 600 + 3000 + 1520) / 10_000)


def test_kernels_wait_for_the_start_of_their_launch(recorded_gpu):
    graph = build(recorded_gpu())
    launches = [d for d in graph.structure.dependencies if d.cause is Cause.LAUNCH]
    assert len(launches) == 12
    assert all(d.from_start and d.lag_us == 5 for d in launches)
    assert {graph.tasks[d.source].kind for d in launches} == {TaskKind.LAUNCH}


def test_synchronising_calls_keep_only_their_own_time(recorded_gpu):
    graph = build(recorded_gpu())
    syncs = [i for i, task in enumerate(graph.tasks) if task.kind is TaskKind.SYNC]
    assert [graph.durations[i] for i in syncs] == [8, 8, 8]


def test_what_follows_a_blocking_copy_waits_for_it(recorded_gpu):
    trace = recorded_gpu(iterations=1, kernels=1, kernel_us=100)
    # A copy to the host: the call of 200 µs returns 2 µs after the copy, which waited for the kernel.
    call = Record("cudaMemcpyAsync", RecordKind.RUNTIME, Phase.OTHER, "main", 0, 200, 200, correlation=9)
    copy = Record("Memcpy DtoH", RecordKind.COPY, Phase.OTHER, "stream 7", 0, 390, 8, correlation=9)
    after = Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 400, 50)
    graph = build(replace(trace, records=(*trace.records, call, copy, after)))
    index = next(i for i, task in enumerate(graph.tasks) if task.name == "aten::add")
    waits = graph.structure.incoming[index]
    assert [(graph.tasks[d.source].name, d.cause, d.lag_us) for d in waits] == [
        ("Memcpy DtoH", Cause.SYNC, 2)
    ]


def test_work_launched_before_the_recording_starts_when_it_started(recorded_gpu):
    trace = recorded_gpu(iterations=1, kernels=1)
    orphan = Record("backlog", RecordKind.KERNEL, Phase.OTHER, "stream 8", 0, 30, 8, correlation=77)
    graph = build(replace(trace, records=(*trace.records, orphan)))
    index = next(i for i, task in enumerate(graph.tasks) if task.name == "backlog")
    assert simulate(graph).starts[index] == 30


def beside(records: list[Record], name: str):
    """The graph of an iteration of 1 ms, and the dependencies that a task of this name has."""
    graph = build(Trace((IterationMark(0, 0.0, 1000.0),), (), (), tuple(records)), merged=False)
    index = next(i for i, task in enumerate(graph.tasks) if task.name == name)
    return graph, [(graph.tasks[d.source].name, d.cause, d.lag_us) for d in graph.structure.incoming[index]]


def call(name: str, at_us: float, lasts_us: float = 3.0, number: int = 0, lane: str = "main") -> Record:
    return Record(name, RecordKind.RUNTIME, Phase.OTHER, lane, 0, at_us, lasts_us, correlation=number)


def kernel(name: str, at_us: float, lasts_us: float, number: int, stream: str = "stream 7") -> Record:
    return Record(name, RecordKind.KERNEL, Phase.OTHER, stream, 0, at_us, lasts_us, correlation=number)


@pytest.mark.parametrize("brand", ["cuda", "hip"])
def test_a_stream_waits_for_the_one_that_its_caller_named(brand):
    """A copy on a stream of its own, an event behind it, and a kernel that must not start before."""
    graph, waits = beside(
        [
            Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 30, 900),
            call(f"{brand}MemcpyAsync", 0, number=1),
            Record("Memcpy HtoD", RecordKind.COPY, Phase.OTHER, "stream 8", 0, 6, 500, correlation=1),
            call(f"{brand}EventRecord", 4),
            call(f"{brand}StreamWaitEvent", 8),
            call(f"{brand}LaunchKernel", 12, number=2),
            kernel("sgemm", 508, 100, 2),
        ],
        "sgemm",
    )
    assert ("Memcpy HtoD", Cause.EVENT, 0) in waits
    index = next(i for i, task in enumerate(graph.tasks) if task.name == "sgemm")
    assert simulate(graph).starts[index] == pytest.approx(506, abs=3)


def test_a_call_for_the_whole_device_waits_for_every_stream():
    work = [
        call("cudaLaunchKernel", 0, number=1),
        call("cudaLaunchKernel", 4, number=2),
        kernel("first", 6, 300, 1),
        kernel("second", 9, 500, 2, "stream 8"),
    ]
    _, waits = beside([*work, call("hipDeviceSynchronize", 10, 505)], "hipDeviceSynchronize")
    assert {name for name, cause, _ in waits if cause is Cause.SYNC} == {"first", "second"}
    _, waits = beside([*work, call("hipStreamSynchronize", 10, 505)], "hipStreamSynchronize")
    assert [name for name, cause, _ in waits if cause is Cause.SYNC] == ["second"]


def test_what_a_graph_did_not_show_is_gpu_time():
    """Of a graph that was launched at once the second node pauses for 200 µs: something ran that was not recorded."""
    records = [
        Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 20, 900),
        call("cudaGraphLaunch", 0, number=1),
        kernel("node one", 6, 100, 1),
        kernel("node two", 306, 100, 1),
    ]
    graph, _ = beside(records, "node two")
    index = next(i for i, task in enumerate(graph.tasks) if task.name == "node two")
    assert simulate(graph).starts[index] == pytest.approx(306, abs=8)


def test_another_programs_time_on_the_gpu_is_no_latency_of_a_launch():
    """Of three launches to an idle GPU two have to wait for another program's kernels."""
    records = [Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 0, 30000)]
    for number, (launched, late) in enumerate([(0, 8000), (10000, 7), (20000, 9000)], 1):
        records += [
            call("cudaLaunchKernel", launched, number=number),
            kernel(f"kernel {number}", launched + late, 50, number),
        ]
    graph, _ = beside(records, "kernel 2")
    lags = {one.lag_us for waits in graph.structure.incoming for one in waits if one.cause is Cause.LAUNCH}
    assert lags == {7}


def test_nodes_of_a_graph_on_two_streams_keep_their_order():
    """One launch, three nodes: the second runs on another stream after the first, the third after the second."""
    records = [
        Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 10, 990),
        call("cudaGraphLaunch", 0, 8, number=1),
        kernel("node one", 6, 200, 1),
        kernel("node two", 207, 300, 1, "stream 8"),
        kernel("node three", 508, 150, 1),
    ]
    trace = Trace((IterationMark(0, 0.0, 1000.0),), (), (), tuple(records))
    graph = build(trace, merged=False)
    index = {task.name: number for number, task in enumerate(graph.tasks)}
    waits = {
        name: [
            (graph.tasks[d.source].name, d.lag_us)
            for d in graph.structure.incoming[index[name]]
            if d.cause is Cause.LAUNCH
        ]
        for name in index
    }
    # The launch latency is that of the first node alone; the others wait for nodes before them.
    assert waits["node one"] == [("cudaGraphLaunch", 6)]
    starts = simulate(graph).starts
    found = [starts[index[f"node {number}"]] for number in ("one", "two", "three")]
    assert found == pytest.approx([6, 207, 508], abs=3)
    assert replay_error(graph, trace) < 0.01


def test_other_threads_keep_their_distance_from_the_scripts():
    records = [
        Record("aten::add", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 0, 400),
        Record("aten::mul", RecordKind.OPERATOR, Phase.OTHER, "main", 0, 400, 500),
        call("cudaLaunchKernel", 450, number=1, lane="cpu:3"),
        kernel("beside", 456, 100, 1),
    ]
    graph, waits = beside(records, "cudaLaunchKernel")
    assert waits == [("aten::mul", Cause.HAND_OFF, 50)]
    index = next(i for i, task in enumerate(graph.tasks) if task.name == "beside")
    assert simulate(graph).starts[index] == pytest.approx(456)
