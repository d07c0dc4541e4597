"""Laws that no answer breaks, whatever is asked about whichever script: see ``docs/simulation.md``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from skyline.analysis.estimate import answer, ranked
from skyline.graph.dependency import Cause
from skyline.graph.graph import cut_dependencies, scale
from skyline.graph.selection import select
from skyline.graph.task import ON_GPU, TaskKind
from skyline.predict.gpus import gpu_named
from skyline.simulate.critical_path import critical_tasks
from skyline.simulate.engine import simulate
from skyline.trace.facts import LoaderFact
from skyline.trace.kineto.reader import read
from skyline.trace.record import (
    BareTimes,
    CodeLine,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.trace.store import load
from skyline.trace.trial import Choices, Trial
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.fusion import regions
from skyline.whatif.composition import compose
from skyline.whatif.cost.loader_model import inferred_load_us
from skyline.whatif.question import Choice
from skyline.whatif.recorded import recorded

DATA = Path(__file__).parents[2] / "data"
OWN = (
    "linear.profile.json.gz",
    "tiny_cpu.trace.json.gz",
    "tiny_gpu.trace.json",
    "traces/hta_a100_inference_alexnet.json.gz",
    "traces/hta_gp100_mlp_train.json.gz",
    "traces/tracelens_h100_bert_small_fwd.json.gz",
)
SHARED = (
    "deepview_rtx3060ti_resnet50_run1.json.gz",
    "param_dlrm_rank1of8.json.gz",
    "tracelens_h100_vit_nsfw_fwd.json.gz",
)
ROUNDING = 1e-6
GPU = gpu_named("A100-80GB")
MAIN, STREAM = "cpu:main", "gpu0:stream7"


@cache
def subject_at(path):
    return baseline(load(path)) if ".profile." in path.name else recorded(read(path))


@cache
def answers_at(path):
    return tuple(one for one in ranked(subject_at(path)) if one.applicable)


PLACES = (*OWN, *(f"shared/{name}" for name in SHARED))


# The answers to one are found once, in the worker that has its tests.
@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in PLACES])
def place(request):
    if not request.param.startswith("shared/"):
        return DATA / request.param
    found = request.getfixturevalue("shared_data") / "traces" / request.param.removeprefix("shared/")
    if not found.exists():
        pytest.skip(f"no {found.name} among the measured data")
    return found


# Scripts that are made up: kernels take what memory and units of an A100 allow at least, and up to three times that.

FORMATS = ("float32", "float32")


@st.composite
def works(draw):
    """One piece of work: its phase, its operator with shapes, the host's µs for it, and the kernel's."""
    phase = draw(
        st.sampled_from((Phase.FORWARD, Phase.FORWARD, Phase.BACKWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    )
    rows, inner, columns = (draw(st.sampled_from((64, 256, 1024, 4096))) for _ in range(3))
    if phase is not Phase.OPTIMIZER and draw(st.booleans()):
        sizes = ((rows, inner), (inner, columns)), ((rows, columns),)
        name, flops = "aten::mm", 2 * rows * inner * columns
    else:
        sizes, flops = (((rows, columns),), ((rows, columns),)), rows * columns
        name = "aten::relu" if phase is not Phase.OPTIMIZER else "aten::mul_"
    moved = 4 * sum(map(prod, (*sizes[0], *sizes[1])))
    shape = OperatorShape(name, sizes[0], ("float32",) * len(sizes[0]), sizes[1], ("float32",), flops, moved)
    least_us = max(moved / (GPU.bandwidth_gb_s * 1e3), flops / (GPU.tflops_fp32 * 1e6), 2.0)
    slower = draw(st.floats(1.0, 3.0))
    return phase, shape, draw(st.floats(8.0, 400.0)), least_us * slower


@st.composite
def scripts(draw):
    """Work of an iteration, how much recording slows the host, and how much longer the bare step takes than that."""
    work = sorted(draw(st.lists(works(), min_size=3, max_size=12)), key=lambda one: list(Phase).index(one[0]))
    return work, draw(st.floats(1.0, 3.0)), draw(st.floats(0.97, 1.1))


def profile_of(profile, script, larger=1.0):
    """The script as a profile on an A100, in a batch so many times as large: kernels of the passes grow with it."""
    work, inflated, longer = script
    records, marks, now, number = [], [], 0.0, 0
    shapes = tuple(dict.fromkeys(shape for _, shape, _, _ in work))
    for index in range(3):
        begin = free = now
        for phase, shape, host_us, kernel_us in work:
            number += 1
            took = kernel_us * (larger if phase is not Phase.OPTIMIZER else 1.0)
            launch = Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, index, now, 5.0, line=0)
            records.append(replace(launch, correlation=number))
            start = max(free, now + 5.0)
            free = start + took
            kernel = Record(shape.operator, RecordKind.KERNEL, phase, STREAM, index, start, took, line=0)
            records.append(replace(kernel, correlation=number, shape=shapes.index(shape)))
            rest = host_us * inflated - 5.0
            records.append(Record("python", RecordKind.PYTHON, phase, MAIN, index, now + 5.0, rest, line=0))
            now += host_us * inflated
        wait = max(0.0, free - now) + 8
        records.append(
            Record("cudaDeviceSynchronize", RecordKind.RUNTIME, Phase.OTHER, MAIN, index, now, wait)
        )
        now += wait
        marks.append(IterationMark(index, begin, now))
    host = {one: sum(host_us for phase, _, host_us, _ in work if phase is one) / 1e3 for one in Phase}
    gpu_us = sum(us * (larger if phase is not Phase.OPTIMIZER else 1.0) for phase, _, _, us in work)
    step_ms = longer * max(sum(host.values()), gpu_us / 1e3)
    bare = BareTimes((step_ms,) * 5, (0.0,) * 5, (host[Phase.BACKWARD],) * 5, (host[Phase.OPTIMIZER],) * 5)
    device = replace(profile.environment.device, name=GPU.full_name, kind="cuda")
    return replace(
        profile,
        environment=replace(profile.environment, device=device),
        trace=Trace(tuple(marks), (CodeLine("/project/train.py", 3),), (), tuple(records), shapes=shapes),
        times=bare,
        loaders=(),
        trials=(),
        batch_size=round(16 * larger),
    )


def with_bare(profile, factor):
    """The bare iterations take so many times as long; the parts of the host stay."""
    times = profile.times
    return replace(profile, times=replace(times, steps_ms=tuple(factor * one for one in times.steps_ms)))


def made_up(test):
    """Runs a law on a few scripts that are made up, and on five hundred of them where there is time."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    few = settings(max_examples=25, suppress_health_check=quiet, derandomize=True)
    many = settings(max_examples=500, suppress_health_check=quiet)

    @pytest.mark.parametrize(
        "sample", ["few", pytest.param("many", marks=[pytest.mark.long, pytest.mark.timeout(7200)])]
    )
    def run(profile, sample):
        (few if sample == "few" else many)(given(script=scripts())(lambda script: test(profile, script)))()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# The laws.


def check_small_changes(before, others):
    for other in others:
        there = {(one.name, one.value): one for one in ranked(other) if one.applicable}
        for one in before:
            if (one.name, one.value) in there:
                ratio = there[one.name, one.value].iteration_ms.value / one.iteration_ms.value
                assert 0.95 <= ratio <= 1.05, (one.name, one.value, ratio)


@made_up
def test_two_per_cent_of_the_bare_time_move_no_answer_by_more_than_five(profile, script):
    made = profile_of(profile, script)
    answers = [one for one in ranked(baseline(made)) if one.applicable]
    assert answers
    check_small_changes(answers, [baseline(with_bare(made, factor)) for factor in (0.98, 1.02)])


def test_two_per_cent_of_a_cpus_bare_time_move_no_answer_by_more_than_five():
    path = DATA / "linear.profile.json.gz"
    others = [baseline(with_bare(load(path), factor)) for factor in (0.98, 1.02)]
    check_small_changes(answers_at(path), others)


def check_order(subject, answers):
    for first, second in combinations([Choice(one.name, one.value) for one in answers], 2):
        one, other = (compose(subject, pair) for pair in ((first, second), (second, first)))
        assert one.made == other.made
        assert np.array_equal(one.scenario.graph.durations, other.scenario.graph.durations)
        assert one.scenario.below_ms == other.scenario.below_ms


def test_order_of_changes_makes_no_difference(place):
    check_order(subject_at(place), answers_at(place)[:4])


@made_up
def test_order_makes_no_difference_for_scripts_that_are_made_up(profile, script):
    subject = baseline(profile_of(profile, script))
    check_order(subject, [one for one in ranked(subject) if one.applicable][:4])


@made_up
def test_a_larger_batch_and_then_a_change_is_the_change_at_that_batch(profile, script):
    """The bare steps are those of the host and the GPU: of one that is longer, nothing says whose time that is."""
    script, larger = (script[0], script[1], 1.0), 4
    # The host is timed in backward passes and updates: of a forward pass alone recording may have slowed it down.
    assume(any(phase is not Phase.FORWARD for phase, *_ in script[0]))
    small, large = (profile_of(profile, script, factor) for factor in (1.0, larger))
    # Of a few launches of some µs no recording shows how closely kernels can follow one another.
    assume(small.times.steps_ms[0] >= 0.2)
    ratio = large.times.steps_ms[0] / small.times.steps_ms[0]
    trial = Trial(Choices(batch_size=16 * larger), large.times, (ratio,) * 5, peak_bytes=10**8)
    start = baseline(replace(small, trials=(trial,)))
    size = Choice("batch_size", str(16 * larger))
    there = baseline(large)
    for one in ranked(there):
        if one.applicable and one.name not in ("batch_size", "grad_accumulation", "checkpointing"):
            both = answer(start, [size, Choice(one.name, one.value)])
            if not both.reason:
                # 5 %, and a launch of 5 µs.
                room = 0.05 * one.iteration_ms.value + 0.005
                assert abs(both.iteration_ms.value - one.iteration_ms.value) <= room, one.name


def busiest_ms(graph):
    """Of all lanes, per iteration: on a thread with the time between its tasks."""
    tasks = graph.tasks
    took = graph.durations + np.where(ON_GPU[tasks.kind], 0.0, graph.gaps)
    return float(np.bincount(tasks.lane, took).max()) / 1e3 / max(1, len(graph.iterations))


def check_busiest(subject, answers):
    stepped = subject.recording is not None and subject.recording.has_steps
    for one in answers:
        graph = compose(subject, [Choice(one.name, one.value)]).scenario.graph
        # Recorded steps differ from one another: the typical one may be a tenth shorter than the mean.
        busy_ms = 0.9 * busiest_of_counted_ms(subject, graph) if stepped else 0.98 * busiest_ms(graph)
        assert subject.step_ms(graph) >= busy_ms, one.name


def busiest_of_counted_ms(subject, graph):
    first, last = subject.recording.ends_in(graph)
    timeline = simulate(graph)
    counted = subject.recording.counted
    begin, end = timeline.starts[first[counted]].min(), timeline.starts[last[counted]].max()
    inside = np.clip(timeline.ends, begin, end) - np.clip(timeline.starts, begin, end)
    streams = ON_GPU[graph.tasks.kind]
    lanes = np.bincount(graph.tasks.lane[streams], inside[streams], 1)
    return float(lanes.max(initial=0.0)) / 1e3 / subject.recording.count


def test_no_answer_is_below_the_busy_time_of_its_busiest_lane(place):
    check_busiest(subject_at(place), answers_at(place))


@made_up
def test_no_answer_is_below_its_busiest_lane_for_scripts_that_are_made_up(profile, script):
    subject = baseline(profile_of(profile, script))
    for one in ranked(subject):
        if one.applicable:
            graph = compose(subject, [Choice(one.name, one.value)]).scenario.graph
            assert subject.step_ms(graph) >= (1 - ROUNDING) * busiest_ms(graph), one.name


@made_up
def test_no_kernel_is_faster_than_memory_and_units_allow(profile, script):
    """In 16 bits half as much is moved, and products run at the peak of their format at most; a step's update stays."""
    subject = baseline(profile_of(profile, (script[0], script[1], 1.0)))
    records, shapes = subject.script.trace.records, subject.script.trace.shapes
    for one in ranked(subject):
        if not one.applicable or one.name in ("compile", "fused_optimizer", "offload_optimizer"):
            continue
        graph = compose(subject, [Choice(one.name, one.value)]).scenario.graph
        peak = GPU.tflops_bf16 if one.name == "amp" else GPU.tflops_tf32
        for task in select(graph, kind=TaskKind.KERNEL).tolist():
            origin = int(graph.tasks.origin[task])
            if origin < 0:
                continue
            shape = shapes[records[origin].shape]
            narrow = one.name == "amp" and records[origin].phase is not Phase.OPTIMIZER
            before_us = least(shape, 1.0, GPU.tflops_fp32)
            after_us = least(shape, 0.5 if narrow else 1.0, peak)
            now_us = subject.operators.durations[np.flatnonzero(subject.operators.tasks.origin == origin)[0]]
            # Calibration may have left a kernel less time than it needs: the change takes no more of it.
            left = min(1.0, after_us / max(now_us, before_us))
            assert graph.durations[task] >= 0.98 * left * now_us, (one.name, shape)


def least(shape, part, peak_tflops):
    """µs for a part of the bytes at the bandwidth, or for the arithmetic at a peak."""
    return max(part * shape.bytes_moved / (GPU.bandwidth_gb_s * 1e3), shape.flops / (peak_tflops * 1e6))


@made_up
def test_no_fused_kernel_is_faster_than_what_it_still_moves(profile, script):
    """Data that a group reads from outside and writes for others moves once; products stay as they are."""
    subject = baseline(profile_of(profile, (script[0], script[1], 1.0)))
    now = subject.operators
    graph = compose(subject, [Choice("compile")]).scenario.graph
    for group in regions(subject, now).groups:
        least_us = group.external_bytes / (GPU.bandwidth_gb_s * 1e3)
        assert graph.durations[group.tasks].sum() >= 0.98 * min(least_us, now.durations[group.tasks].sum())
    products = select(now, kind=TaskKind.KERNEL, name="aten::mm")
    assert np.array_equal(graph.durations[products], now.durations[products])


def check_untouched(subject, answers):
    for one in answers:
        composed = compose(subject, [Choice(one.name, one.value)])
        before, after = composed.start.graph, composed.scenario.graph
        if after.structure is not before.structure:
            continue
        timeline = simulate(before)
        longer = (after.durations > before.durations + ROUNDING) | (after.gaps > before.gaps + ROUNDING)
        other = (after.durations != before.durations) | (after.gaps != before.gaps)
        if not longer.any() and not other[list(critical_tasks(timeline))].any():
            assert simulate(after).makespan_us == pytest.approx(timeline.makespan_us)


def test_what_is_not_on_the_critical_path_brings_nothing(place):
    check_untouched(subject_at(place), answers_at(place))


@made_up
def test_what_is_not_on_the_critical_path_brings_nothing_to_scripts_that_are_made_up(profile, script):
    subject = baseline(profile_of(profile, script))
    check_untouched(subject, [one for one in ranked(subject) if one.applicable])
    host_us = sum(script[1] * host_us for _, _, host_us, _ in script[0])
    if host_us < 0.5 * sum(us for _, _, _, us in script[0]):
        # A step that its GPU bounds gains nothing by a host that does less.
        assert answer(subject, [Choice("cuda_graphs")]).speedup == pytest.approx(1.0, abs=1e-3)


def doubled(subject):
    """The factor by which the step grows when every kernel takes twice as long."""
    working = select(subject.operators, on_gpu=True)
    longer = scale(subject.operators, working, 2.0, gaps=True)
    return subject.step_ms(longer) / subject.step_ms(subject.operators)


@made_up
def test_doubling_every_kernel_doubles_a_step_that_its_gpu_bounds(profile, script):
    subject = baseline(profile_of(profile, script))
    if busiest_ms_on_gpu(subject.operators) >= (1 - ROUNDING) * subject.step_ms(subject.operators):
        assert doubled(subject) == pytest.approx(2.0, rel=0.01)


def busiest_ms_on_gpu(graph):
    streams = ON_GPU[graph.tasks.kind]
    took = (graph.durations + graph.gaps)[streams]
    return float(np.bincount(graph.tasks.lane[streams], took).max()) / 1e3 / max(1, len(graph.iterations))


def test_doubling_every_kernel_doubles_a_recorded_step_that_its_gpu_bounds(shared_data):
    path = shared_data / "traces" / SHARED[0]
    if not path.exists():
        pytest.skip(f"no {path.name} among the measured data")
    assert doubled(subject_at(path)) == pytest.approx(2.0, rel=0.02)


def test_a_wait_that_is_removed_never_lengthens(place):
    subject = subject_at(place)
    found = answer(subject, [Choice("remove_sync")])
    assert found.change_ms.value <= ROUNDING
    before = subject.step_ms(subject.operators)
    free = cut_dependencies(subject.operators, cause=Cause.SYNC)
    assert subject.step_ms(free) <= before * (1 + ROUNDING)


LOADING = (
    "num_workers",
    "persistent_workers",
    "prefetch_factor",
    "grad_accumulation",
    "fuse_jobs",
    "batch_size",
)
"""What-ifs that change the workers, or batches: another size of these was measured without waits."""


def test_no_answer_outruns_workers_that_are_always_busy():
    """Two workers take 40 ms for a batch, alone on their cores: no change of the other 10 ms makes them quicker."""
    profile = load(DATA / "linear.profile.json.gz")
    times, steps = profile.times, len(profile.times.steps_ms)
    slower = 10.0 / min(times.steps_ms)
    times = replace(
        times,
        data_ms=(10.0,) * steps,
        steps_ms=(20.0,) * steps,
        backward_ms=tuple(slower * one for one in times.backward_ms),
        optimizer_ms=tuple(slower * one for one in times.optimizer_ms),
    )
    environment = replace(profile.environment, cpu_count=64)
    loader = LoaderFact(profile.batch_size or 16, 2, None, 1.0)
    subject = baseline(replace(profile, times=times, environment=environment, loaders=(loader,), load=None))
    pace_ms = inferred_load_us(subject) / 2e3
    assert pace_ms == pytest.approx(20.0, rel=0.02)
    asked = [
        Choice(one.name, one.value) for one in ranked(subject) if one.applicable and one.name not in LOADING
    ]
    assert len(asked) >= 3
    for choices in (*((one,) for one in asked), *combinations(asked[:5], 3)):
        found = answer(subject, choices)
        assert found.iteration_ms.value >= 0.98 * pace_ms, found.title
