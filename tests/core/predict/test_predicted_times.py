from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from skyline.analysis.analyse import analyse
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.predict.gpu_spec import PROCESSOR_VENDOR, GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorTime
from skyline.predict.predicted_times import group_times_us, timed
from skyline.predict.schedule import END_OF_ITERATION
from skyline.report.basis import basis_parts, headline, memory_remark, prediction_basis
from skyline.report.build import profile_report
from skyline.trace.facts import TimedRead
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import detected_in
from skyline.whatif.registry import whatif_named

HOST = HostCost(launch_us=10.0, operator_us=2.0, wait_us=4.0, launch_latency_us=5.0, turnaround_us=0.0)


class Told:
    """A predictor with two given times: one for products, one for everything else."""

    name = "told"

    def __init__(self, product_us: float, other_us: float, spread: float = 0.0) -> None:
        self.times = (product_us, other_us)
        self.spread = spread
        self.asked: list[OperatorShape] = []

    def basis(self, device: GpuSpec) -> str:
        return f"what was told of the {device.name}"

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        self.asked += shapes
        answers: list[OperatorTime] = []
        for shape in shapes:
            product = shape.operator == "aten::mm"
            value = self.times[0 if product else 1]
            interval = Interval(value, value * (1 - self.spread), value * (1 + self.spread))
            answers.append(OperatorTime(interval, product, "product" if product else "other"))
        return answers


class Processing(Told):
    """The same for a processor, which does the work itself."""

    def claims(self, device: GpuSpec) -> bool:
        return True

    def host_cost(self, device: GpuSpec) -> HostCost:
        return replace(HOST, synchronous=True)


def test_a_gpu_that_is_slow_sets_the_iteration(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(10_000.0, 1_000.0), HOST)
    assert made.times.steps_ms[0] == pytest.approx(2 * 10 + 4 * 1, abs=0.2)


def test_a_gpu_that_is_fast_leaves_the_host_to_set_it(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(0.1, 0.1), HOST)
    host_us = 6 * HOST.launch_us + HOST.operator_us + 2 * HOST.wait_us
    assert made.times.steps_ms[0] * 1e3 == pytest.approx(host_us, abs=12)


def test_each_distinct_shape_is_asked_about_once_and_a_copy_by_what_crosses_the_bus(
    traced: Profile, gpu: GpuSpec
):
    told = Told(10.0, 10.0)
    timed(traced, gpu, told, HOST)
    assert sorted(shape.operator for shape in told.asked) == ["Memcpy HtoD", "aten::gelu", "aten::mm"]
    assert next(shape for shape in told.asked if shape.operator == "Memcpy HtoD").bytes_moved == 4096


def test_kernels_start_after_their_launch_and_never_overlap(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(300.0, 20.0), HOST)
    launches = {record.correlation: record for record in made.trace.records if record.lane == "cpu:main"}
    until = 0.0
    for kernel in (record for record in made.trace.records if record.lane == "gpu:0"):
        assert kernel.start_us >= launches[kernel.correlation].start_us + HOST.launch_latency_us - 1e-9
        assert kernel.start_us >= until - 1e-9
        until = kernel.end_us
    hosts = [record for record in made.trace.records if record.lane == "cpu:main"]
    assert all(later.start_us >= earlier.end_us - 1e-9 for earlier, later in pairwise(hosts))


def test_waiting_for_a_number_lasts_until_the_gpu_is_done(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(5_000.0, 20.0), HOST)
    wait = next(record for record in made.trace.records if record.name == "cudaStreamSynchronize")
    forward = [
        record for record in made.trace.records if record.phase is Phase.FORWARD and record.lane == "gpu:0"
    ]
    assert wait.end_us >= forward[1].end_us
    assert wait.duration_us > 4_000


def test_every_iteration_ends_when_its_gpu_work_does(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(5_000.0, 20.0), HOST)
    ends = [record.end_us for record in made.trace.records if record.name == END_OF_ITERATION]
    assert ends == pytest.approx([mark.end_us for mark in made.trace.iterations])
    assert len({record.iteration for record in made.trace.records}) == len(made.trace.iterations) == 2


def test_the_graph_of_it_replays_to_the_same_time(traced: Profile, gpu: GpuSpec):
    for told in (Told(5_000.0, 20.0), Told(3.0, 2.0), Told(40.0, 30.0)):
        analysis = analyse(timed(traced, gpu, told, HOST))
        assert analysis.replay_error < 0.05
        assert analysis.baseline.simulated_ms == pytest.approx(analysis.baseline.iteration_ms.value, rel=0.05)


def test_the_groups_of_a_processor_are_its_iteration(traced: Profile, gpu: GpuSpec):
    processor = replace(gpu, vendor=PROCESSOR_VENDOR)
    told = Processing(300.0, 20.0, 0.5)
    groups = group_times_us(traced, processor, told)
    assert groups["product"] == Interval(600.0, 300.0, 900.0)
    assert groups["other"].value == pytest.approx(4 * 20.0)
    assert groups["host"].value == pytest.approx(6 * HOST.launch_us + HOST.operator_us + HOST.wait_us)
    whole_ms = timed(traced, processor, told).times.steps_ms[0]
    assert sum(one.value for one in groups.values()) == pytest.approx(1e3 * whole_ms, rel=0.02)


def test_a_batch_takes_what_reading_it_took_without_being_traced(traced: Profile, gpu: GpuSpec):
    fetch = next(record for record in traced.trace.records if record.kind is RecordKind.DATA)
    read = TimedRead(fetch.start_us, fetch.end_us, 7_000.0)
    before = timed(traced, gpu, Told(10.0, 10.0), HOST)
    made = timed(replace(traced, timed_reads=(read,)), gpu, Told(10.0, 10.0), HOST)
    shown = [record.duration_us for record in made.trace.records if record.kind is RecordKind.DATA]
    assert shown == pytest.approx([7_000.0] * len(shown))
    longer_ms = made.times.steps_ms[0] - before.times.steps_ms[0]
    assert longer_ms == pytest.approx(7.0, abs=0.1)
    assert made.prediction is not None
    assert made.prediction.iteration_ms.low < made.times.steps_ms[0] - 2.0


def test_time_goes_to_the_lines_and_phases_whose_kernels_run(traced: Profile, gpu: GpuSpec):
    analysis = analyse(timed(traced, gpu, Told(10_000.0, 1_000.0), HOST))
    total = analysis.baseline.iteration_ms.value
    assert analysis.phases.total == pytest.approx(total)
    assert analysis.phases.forward == pytest.approx(11.0, rel=0.02)
    assert analysis.phases.backward == pytest.approx(11.0, rel=0.02)
    assert analysis.phases.optimizer == pytest.approx(1.0, rel=0.05)
    assert sum(line.self_ms for line in analysis.lines) == pytest.approx(total)
    assert analysis.lines[0].line == 5
    assert analysis.lines[0].self_ms > 0.9 * total


def test_the_interval_holds_what_each_group_does_to_the_iteration(traced: Profile, gpu: GpuSpec):
    sure = timed(traced, gpu, Told(10_000.0, 1_000.0), HOST).prediction
    unsure = timed(traced, gpu, Told(10_000.0, 1_000.0, spread=0.3), HOST).prediction
    assert sure is not None
    assert unsure is not None
    assert sure.iteration_ms.high - sure.iteration_ms.low < 0.2
    # Products move it by 6 ms and the rest by 1.2 ms either way, independently.
    assert unsure.iteration_ms.high - unsure.iteration_ms.value == pytest.approx(6.12, abs=0.1)
    assert unsure.iteration_ms.value - unsure.iteration_ms.low == pytest.approx(6.12, abs=0.1)


def test_what_was_never_measured_is_weighed_by_time(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(3_000.0, 1_000.0), HOST)
    assert made.prediction is not None
    assert made.prediction.unmeasured_share == pytest.approx(3 / 9)


def test_memory_follows_the_host_into_the_last_iteration(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(10_000.0, 1_000.0), HOST)
    last = made.trace.iterations[-1]
    times = [allocation.time_us for allocation in made.trace.allocations]
    assert times == sorted(times)
    assert all(last.start_us <= time <= last.end_us for time in times)
    taken, freed = times
    wait = [record for record in made.trace.records if record.name == "cudaStreamSynchronize"][-1]
    assert taken <= wait.start_us < wait.end_us <= freed + 1e-6


def test_it_says_that_it_is_predicted_for_what_and_on_what(traced: Profile, gpu: GpuSpec):
    made = timed(replace(traced, peak_bytes=2 * 2**30), gpu, Told(10_000.0, 1_000.0), HOST)
    report = profile_report(analyse(made))
    assert report.mode == "predicted"
    assert "(predicted, X1)" in headline(report)
    words = " · ".join(basis_parts(report))
    assert "for Example X1" in words
    assert "nothing was run" in words
    assert memory_remark(report) == "It fits into the memory of the X1."
    rests_on = " ".join(prediction_basis(report))
    assert "what was told of the X1" in rests_on
    assert (
        "600 MB of the GPU's memory are reserved for the CUDA context and 5 % for fragmentation" in rests_on
    )
    too_large = timed(replace(traced, peak_bytes=20 * 2**30), gpu, Told(1.0, 1.0), HOST)
    assert "does not fit" in memory_remark(profile_report(analyse(too_large)))


def test_room_is_left_for_the_context_and_fragments(traced: Profile, gpu: GpuSpec):
    """8 GiB are 8.6 GB, of which 7.6 GB are for tensors."""
    for peak_bytes, words in ((7_500_000_000, "It fits into"), (8_000_000_000, "It does not fit into")):
        made = timed(replace(traced, peak_bytes=peak_bytes), gpu, Told(1.0, 1.0), HOST)
        assert memory_remark(profile_report(analyse(made))).startswith(words)


def test_mixed_precision_is_not_offered_where_products_have_16_bits_already(traced: Profile, gpu: GpuSpec):
    product, *others = traced.trace.shapes
    narrow = replace(product, dtypes=("bfloat16", "bfloat16"))
    before = analyse(timed(traced, gpu, Told(1_000.0, 1.0), HOST))
    after = replace(traced, trace=replace(traced.trace, shapes=(narrow, *others)))
    assert "16 bits" not in detected_in(before.baseline, whatif_named("amp")).reason
    assert (
        "16 bits already"
        in detected_in(
            analyse(timed(after, gpu, Told(1_000.0, 1.0), HOST)).baseline, whatif_named("amp")
        ).reason
    )


def test_it_can_be_saved_and_loaded(traced: Profile, gpu: GpuSpec):
    made = timed(traced, gpu, Told(10.0, 1.0), HOST)
    assert msgspec.json.decode(msgspec.json.encode(made), type=Profile) == made


def test_a_trace_without_gpu_work_is_the_host_alone(traced: Profile, gpu: GpuSpec):
    hosts = tuple(record for record in traced.trace.records if record.kind is RecordKind.DATA)
    made = timed(
        replace(traced, trace=replace(traced.trace, records=hosts, allocations=())), gpu, Told(1.0, 1.0), HOST
    )
    assert made.times.steps_ms[0] * 1e3 == pytest.approx(HOST.operator_us + HOST.wait_us)


def test_a_processor_does_the_operators_itself(traced: Profile, gpu: GpuSpec):
    """Nothing runs on a GPU, and what-ifs ask its operators what they ask of those of any CPU."""
    processor = replace(gpu, vendor=PROCESSOR_VENDOR)
    made = timed(traced, processor, Told(300.0, 20.0), replace(HOST, synchronous=True))
    assert made.environment.device.kind == "cpu"
    assert {record.lane for record in made.trace.records} == {"cpu:main"}
    start = baseline(made)
    assert not start.on_gpu
    assert start.simulated_ms == pytest.approx(made.prediction.iteration_ms.value, rel=0.01)
    assert len(select(start.operators, name="kernel", kind=TaskKind.CPU))
