"""Lines that read numbers, evaluation that records gradients: what they cost, and what goes with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.trace.facts import CallFact
from skyline.trace.record import IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.cuda_graphs import WHATIF as GRAPHS
from skyline.whatif.catalogue.host.reading import reading_lines
from skyline.whatif.catalogue.host.remove_sync import WHATIF as SYNC
from skyline.whatif.catalogue.host.remove_sync import own_waits, waits
from skyline.whatif.catalogue.models.inference_mode import KEPT_SHARE, PER_OPERATOR_US
from skyline.whatif.catalogue.models.inference_mode import WHATIF as INFERENCE
from skyline.whatif.memory import Memory
from skyline.whatif.subject import Grain

PRINT = 3  # the place of the print's line among the lines of the hand-made traces


def told(profile, *calls):
    return replace(profile, calls=calls)


def reading(profile, name="item"):
    return told(profile, CallFact(name, 1.0, profile.trace.lines[PRINT], {"device": "cpu"}))


def after_ms(whatif, start, value=""):
    changed = whatif.transform(Scenario.of(start, Grain.OPERATORS), value, start)
    return start.step_ms(changed.graph), changed


def test_a_line_that_reads_costs_its_python(profile):
    start = baseline(reading(profile))
    found = reading_lines(start, start.graph_of(Grain.OPERATORS))
    assert [one.line.line for one in found] == [8]
    cost_ms = found[0].cost_us / 1e3 / start.steps
    assert 0.5 < cost_ms < 1.5
    assert after_ms(SYNC, start, "all")[0] == pytest.approx(start.simulated_ms - cost_ms, rel=0.01)
    tenth, changed = after_ms(SYNC, start, "10")
    assert tenth == pytest.approx(start.simulated_ms - 0.9 * cost_ms, rel=0.01)
    assert any("train.py line 8 (item)" in line for line in changed.assumptions)


def test_what_cannot_be_taken_out(profile):
    assert "no line reads" in SYNC.detect(baseline(profile)).reason
    # A test of a truth value decides the next step, and reads by a library are not the script's.
    assert "no line reads" in SYNC.detect(baseline(reading(profile, "bool"))).reason
    line = profile.trace.lines[PRINT]
    by_library = told(profile, CallFact("read", 1.0, line, {"via": "clip_grad_norm_"}))
    assert "no line reads" in SYNC.detect(baseline(by_library)).reason
    with pytest.raises(UsageError, match="not possible"):
        after_ms(SYNC, baseline(reading(profile)), "often")


def test_reading_next_to_nothing_is_not_worth_it(profile):
    def shorter(record):
        other = record.phase is Phase.OTHER
        return replace(record, duration_us=1.0) if other else record

    trace = replace(profile.trace, records=tuple(map(shorter, profile.trace.records)))
    found = SYNC.detect(baseline(reading(replace(profile, trace=trace))))
    assert "of the iteration only" in found.reason


def test_on_a_gpu_the_wait_goes_and_a_share_stays(gpu_profile):
    start = baseline(gpu_profile)
    assert SYNC.detect(start).default == "10"
    never, tenth = after_ms(SYNC, start, "all")[0], after_ms(SYNC, start, "10")[0]
    assert never < tenth <= start.simulated_ms
    assert tenth - never == pytest.approx(0.1 * (start.simulated_ms - never), rel=0.05)


def evaluating(profile, grad=True):
    """The forward pass of the hand-made iterations as one that only evaluates."""
    records = tuple(
        replace(record, phase=Phase.OTHER) if record.phase is Phase.FORWARD else record
        for record in profile.trace.records
    )
    options = {"module": "Linear", "grad_enabled": grad, "training": False, "inference_mode": False}
    call = CallFact("eval forward", 1.0, profile.trace.lines[1], options)
    return replace(profile, trace=replace(profile.trace, records=records), calls=(call,))


def test_evaluation_loses_a_little_per_operator(profile):
    start = baseline(evaluating(profile))
    assert INFERENCE.detect(start).applicable
    now_ms, changed = after_ms(INFERENCE, start)
    names = start.graph_of(Grain.OPERATORS)
    # Of the rows of that module the two operators of the forward pass, and those of the print, do the evaluating.
    tasks = names.tasks
    chosen = [i for i in range(len(names)) if tasks[i].phase is Phase.OTHER and names.durations[i] > 0]
    saved_us = (
        sum(PER_OPERATOR_US.value + KEPT_SHARE.value * names.durations[i] for i in chosen) / start.steps
    )
    assert start.simulated_ms - now_ms == pytest.approx(saved_us / 1e3, rel=0.02)
    assert changed.below_ms > 0


def test_evaluation_that_is_none(profile):
    assert "no evaluation ran" in INFERENCE.detect(baseline(profile)).reason
    assert "already" in INFERENCE.detect(baseline(evaluating(profile, grad=False))).reason


def test_graphs_need_shapes_that_stay(gpu_profile):
    assert GRAPHS.detect(baseline(gpu_profile)).applicable

    def reshaped(record):
        launched = record.phase is Phase.FORWARD and record.kind is RecordKind.RUNTIME
        return replace(record, shape=record.iteration) if launched else record

    records = tuple(map(reshaped, gpu_profile.trace.records))
    assert (
        "shapes differ"
        in GRAPHS.detect(
            baseline(replace(gpu_profile, trace=replace(gpu_profile.trace, records=records)))
        ).reason
    )


def test_graphs_keep_inputs_and_what_the_passes_need(gpu_profile):
    """The batch lies once more at a fixed place; at worst nothing else can use the memory of the passes."""
    start = baseline(gpu_profile)
    peak = replace(start.peak, activations=1 << 24)
    start = replace(start, batch_tensors=(3 << 20,), peak=peak)
    before = Memory.of(start.peak, None).peak_bytes
    after = after_ms(GRAPHS, start)[1].memory.peak_bytes
    assert after.value == before.value + (3 << 20)
    assert after.high == before.high + (3 << 20) + (1 << 24)


def test_graphs_are_recorded_by_the_compiler_and_that_is_paid_once(gpu_profile):
    start = baseline(gpu_profile)
    changed = after_ms(GRAPHS, start)[1]
    assert changed.one_off_s is not None
    paid = replace(Scenario.of(start), one_off_s=changed.one_off_s)
    assert GRAPHS.transform(paid, "", start).one_off_s == changed.one_off_s


def iterations(*waits):
    """Each a kernel of 2 ms, and calls of the script's thread that wait for it."""
    records, marks, clock = [], [], 0.0
    for iteration in range(3):
        begin, at = clock, {"iteration": iteration, "correlation": iteration + 1}
        launch, kernel = ("cudaLaunchKernel", RecordKind.RUNTIME), ("gemm", RecordKind.KERNEL)
        records.append(Record(*launch, Phase.FORWARD, "main", start_us=clock, duration_us=5.0, **at))
        records.append(
            Record(*kernel, Phase.FORWARD, "stream 7", start_us=clock + 5, duration_us=2000.0, **at)
        )
        clock += 5
        for name in waits:
            records.append(
                Record(name, RecordKind.RUNTIME, Phase.OTHER, "main", iteration, clock, begin + 2006 - clock)
            )
            clock = begin + 2006
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), (), (), tuple(records))


def test_the_wait_that_ends_a_timed_iteration_is_not_the_scripts(gpu_profile):
    ending = baseline(replace(gpu_profile, trace=iterations("cudaDeviceSynchronize")))
    # As the script runs by itself: the last two wait for the iteration before.
    assert len(waits(ending.operators, ending.lane)) == 2
    assert len(own_waits(ending, ending.operators)) == 0
    assert "does not wait" in SYNC.detect(ending).reason
    both = baseline(replace(gpu_profile, trace=iterations("cudaStreamSynchronize", "cudaDeviceSynchronize")))
    names = [both.operators.tasks[index].name for index in own_waits(both, both.operators)]
    assert names == ["cudaStreamSynchronize"] * 3
