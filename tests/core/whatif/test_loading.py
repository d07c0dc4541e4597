"""num_workers, persistent_workers, prefetch_factor and cpu_threads, by themselves and together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.simulate.engine import simulate
from skyline.trace.facts import CallFact, LoaderFact, MachineLoad, MemoryFact
from skyline.trace.record import Allocation, BareTimes, IterationMark, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.host.cpu_threads import WHATIF as THREADS
from skyline.whatif.catalogue.loading.num_workers import WHATIF as WORKERS
from skyline.whatif.catalogue.loading.persistent_workers import WHATIF as PERSISTENT
from skyline.whatif.catalogue.loading.pin_memory import WHATIF as PIN
from skyline.whatif.catalogue.loading.prefetch_factor import WHATIF as PREFETCH
from skyline.whatif.composition import compose
from skyline.whatif.cost.loader_model import COSTS, inferred_load_us, paced_by_workers, workers_keep_up
from skyline.whatif.cost.shared_pages import used_bytes
from skyline.whatif.loader_setting import iterations_per_epoch, start_ms
from skyline.whatif.question import Choice

ENDLESS = LoaderFact(16, 0, None, 1.0)
"""A loader whose epochs have no known end: starting workers is not spread over iterations."""


def start_of(profile, *, batch_bytes=4000, loader=ENDLESS, **machine):
    environment = replace(profile.environment, **machine)
    made = replace(profile, environment=environment, loaders=(loader,))
    return replace(baseline(made), batch_tensors=(batch_bytes,))


def with_data(profile, data_ms):
    """The iteration with the loader taking so long, step by step, and the rest 8 ms."""
    times = profile.times
    count = len(times.steps_ms)
    data = tuple(data_ms[index % len(data_ms)] for index in range(count))
    return replace(profile, times=replace(times, data_ms=data, steps_ms=tuple(8.0 + one for one in data)))


def asked(start, *texts):
    made = compose(start, [Choice.parse(text) for text in texts])
    return made, start.step_ms(made.scenario.graph)


def test_a_worker_hides_loading_where_cores_are_free(profile):
    start = start_of(profile, cpu_count=8, intraop_threads=1)
    made, step_ms = asked(start, "num_workers=1")
    # 8 ms of computing remain, taking a batch costs 0.85 ms, and a busy neighbour slows all of it by a percent or so.
    assert step_ms == pytest.approx(8.85, rel=0.02)
    assert made.scenario.below_ms > 0


def test_workers_do_not_create_cores(profile):
    start = start_of(profile, cpu_count=1, intraop_threads=1)
    assert asked(start, "num_workers=4")[1] >= 10.0


def test_one_worker_cannot_keep_up_with_a_slow_loader_and_three_can(profile):
    start = start_of(with_data(profile, (24.0,)), cpu_count=16, intraop_threads=1)
    sent_ms = COSTS.sent_us(4000.0) / 1e3
    assert asked(start, "num_workers=1")[1] == pytest.approx((24.0 + sent_ms) * 1.03, rel=0.001)
    assert asked(start, "num_workers=4")[1] == pytest.approx(8.85 * 1.08, rel=0.03)
    assert WORKERS.detect(start).default == "3"


def test_the_start_of_the_workers_is_borne_by_short_epochs(profile):
    alone = asked(start_of(profile, cpu_count=8, intraop_threads=1), "num_workers=1")[1]
    short = start_of(profile, cpu_count=8, intraop_threads=1, loader=LoaderFact(16, 0, 160, 1.0))
    assert iterations_per_epoch(short, None) == 10
    each = start_ms(short.profile, 1).value + 2.0
    made, step_ms = asked(short, "num_workers=1")
    assert step_ms == pytest.approx(alone + each / 10, rel=0.01)
    # Measurements in turns use the iteration in the middle of all, in which no worker is started.
    assert made.scenario.occasional_ms == pytest.approx(each / 10)
    made, step_ms = asked(short, "num_workers=1", "persistent_workers")
    assert step_ms == pytest.approx(alone, rel=0.01)
    assert made.scenario.occasional_ms == 0
    assert made.scenario.one_off_s is not None
    assert made.scenario.one_off_s.value == pytest.approx(each / 1e3)


def test_the_range_of_the_start_of_workers_is_not_one_of_the_iteration_in_the_middle(profile):
    """In epochs of two iterations the start is many times as long as an iteration, and as unsure."""
    choices = (Choice("num_workers", "1"),)
    long, short = (
        answer(
            start_of(profile, cpu_count=8, intraop_threads=1, loader=LoaderFact(16, 0, size, 1.0)), choices
        )
        for size in (None, 32)
    )
    now_ms = profile.times.steps_ms[0]
    assert short.iteration_ms.high - short.iteration_ms.value > now_ms
    assert short.typical_ms.value == pytest.approx(long.typical_ms.value, rel=0.01)
    # The difference between two processes is a share of the whole.
    assert short.typical_ms.half_width < 2 * long.typical_ms.half_width
    assert short.typical_change_ms.half_width < 2 * long.change_ms.half_width


def test_scripts_with_workers_that_do_not_keep_up_can_be_asked(profile):
    # Two workers take 20 ms each for a batch that computing of 8 ms waits for.
    slow = with_data(profile, (12.0,))
    start = start_of(slow, cpu_count=16, intraop_threads=1, loader=LoaderFact(16, 2, None, 1.0))
    found = WORKERS.detect(start)
    # Two busy workers leave enough cores: 2 x 20 ms for a batch.
    assert found.applicable
    assert found.default == "5"
    assert set(found.values) == {"0", "1", "4", "8", "16"}
    assert asked(start, "num_workers=4")[1] == pytest.approx(10.0, rel=0.1)
    assert asked(start, "num_workers=1")[1] == pytest.approx(40.0, rel=0.1)
    assert asked(start, "num_workers=0")[1] == pytest.approx(48.0, rel=0.05)
    assert asked(start, "num_workers=2")[1] == pytest.approx(start.simulated_ms)


def test_workers_take_no_longer_than_the_processor_time_that_they_were_seen_to_take(profile):
    """On two full cores they wait for a core, not for a disk: one worker then is not twice as slow as two."""
    slow = with_data(profile, (12.0,))
    loader = LoaderFact(16, 2, None, 1.0)
    machine = {"cpu_count": 2, "intraop_threads": 2, "loader": loader}
    unknown = start_of(slow, **machine)
    full = MachineLoad(own_cores=2.0, others_cores=0.0, cores=2, further_cores=0.4)
    known = start_of(replace(slow, load=full), **machine)
    assert inferred_load_us(unknown) > 20_000
    assert inferred_load_us(known) == pytest.approx(0.4 * 20_000)
    assert asked(known, "num_workers=1")[1] < 20.0 < asked(unknown, "num_workers=1")[1]
    said = [asked(one, "num_workers=1")[0].scenario.assumptions[0] for one in (unknown, known)]
    assert ["processor time" in one for one in said] == [False, True]
    # Busy for a fifth of the time, they set no pace: half of the work is half of the work.
    assert [workers_keep_up(one) for one in (unknown, known)] == [False, True]
    before = Scenario.of(known)
    half = before.changed(scale(before.graph, select(before.graph, kind=TaskKind.CPU), 0.5, gaps=True))
    assert paced_by_workers(half, before.graph, known) is half
    # With half of the machine idle they may as well wait for a disk.
    idle = MachineLoad(own_cores=1.0, others_cores=0.0, cores=2, further_cores=0.4)
    resting = start_of(replace(slow, load=idle), **machine)
    assert inferred_load_us(resting) == pytest.approx(min(inferred_load_us(unknown), 1.4 * 20_000))


def test_what_becomes_shorter_is_waited_for_where_workers_set_the_pace(profile):
    """Two workers take 40 ms for a batch, whatever the script does meanwhile: with a core for each."""
    loader = LoaderFact(16, 2, None, 1.0)
    start = start_of(with_data(profile, (12.0,)), cpu_count=16, intraop_threads=1, loader=loader)
    before = Scenario.of(start)
    compute = select(before.graph, kind=TaskKind.CPU)
    half = before.changed(scale(before.graph, compute, 0.5, gaps=True))
    assert start.step_ms(half.graph) == pytest.approx(16.0, rel=0.01)
    paced = paced_by_workers(half, before.graph, start)
    assert start.step_ms(paced.graph) == pytest.approx(20.0, rel=0.01)
    assert paced.below_ms == pytest.approx(4.0, rel=0.05)
    # Work that takes longer than the workers do is waited for instead.
    more = before.changed(scale(before.graph, compute, 4.0, gaps=True))
    assert start.step_ms(paced_by_workers(more, before.graph, start).graph) == pytest.approx(32.0, rel=0.02)
    # Where the batches are ready, workers set no pace.
    ready = start_of(with_data(profile, (0.1,)), cpu_count=16, intraop_threads=1, loader=loader)
    shorter = Scenario.of(ready).changed(scale(ready.graph_of(Grain.PHASES), compute, 0.5, gaps=True))
    assert paced_by_workers(shorter, Scenario.of(ready).graph, ready) is shorter


def test_on_shared_cores_workers_are_quicker_where_less_is_computed(profile):
    """Half of the work leaves them more of both cores, so that the iteration becomes shorter, but by less."""
    loader = LoaderFact(16, 2, None, 1.0)
    start = start_of(with_data(profile, (12.0,)), cpu_count=2, intraop_threads=2, loader=loader)
    before = Scenario.of(start)
    half = before.changed(scale(before.graph, select(before.graph, kind=TaskKind.CPU), 0.5, gaps=True))
    assert 16.0 <= start.step_ms(paced_by_workers(half, before.graph, start).graph) < 20.0


def test_changes_together_keep_the_pace_of_the_workers(profile):
    """The loader's own what-ifs come behind, and a question about workers models them itself."""
    loader = LoaderFact(16, 2, None, 1.0)
    features = ("avx512f", "avx512_bf16")
    start = start_of(
        with_data(profile, (12.0,)), cpu_count=16, intraop_threads=1, loader=loader, cpu_features=features
    )
    made, step_ms = asked(start, "amp=bf16")
    assert made.reason == ""
    assert step_ms == pytest.approx(20.0, rel=0.01)
    assert any("set the pace" in one for one in made.scenario.assumptions)
    four, shorter_ms = asked(start, "amp=bf16", "num_workers=4")
    assert shorter_ms < 0.6 * step_ms
    assert not any("set the pace" in one for one in four.scenario.assumptions)


def test_nothing_is_said_of_workers_that_keep_up(profile):
    ready = with_data(profile, (0.3,))
    found = WORKERS.detect(start_of(ready, loader=LoaderFact(16, 2, None, 1.0)))
    assert not found.applicable
    assert "ready when the script needs them" in found.reason
    assert "no DataLoader" in WORKERS.detect(baseline(replace(profile, loaders=()))).reason


def test_what_the_loader_needs_is_asked_together(profile):
    start = start_of(profile, cpu_count=8, intraop_threads=1)
    for whatif in (PERSISTENT, PREFETCH):
        found = whatif.detect(start)
        assert not found.applicable
        assert "no workers" in found.reason
    alone, _ = asked(start, "prefetch_factor=4")
    assert "no workers" in alone.reason
    made, _ = asked(start, "num_workers=2", "prefetch_factor=4", "persistent_workers")
    assert made.reason == ""
    assert {name for name, _ in made.made} == {"num_workers", "prefetch_factor", "persistent_workers"}
    assert len([lane for lane in made.scenario.graph.structure.lanes if lane.startswith("worker")]) == 2


def test_in_epochs_of_one_iteration_every_iteration_starts_workers(profile):
    cost = start_ms(profile, 2).value
    alone = asked(start_of(profile, cpu_count=8, intraop_threads=1), "num_workers=2")[1]
    start = start_of(profile, cpu_count=8, intraop_threads=1, loader=LoaderFact(16, 0, 16, 1.0))
    made, step_ms = asked(start, "num_workers=2")
    assert step_ms == pytest.approx(alone + cost + 2.0, rel=0.01)
    assert made.scenario.occasional_ms == 0
    assert made.scenario.above_ms > cost
    slow = with_data(profile, (2 * cost,))
    made, step_ms = asked(start_of(slow, loader=LoaderFact(16, 2, 16, 1.0)), "persistent_workers")
    assert step_ms == pytest.approx(2 * cost + 8.0 - cost, rel=0.05)
    assert made.scenario.occasional_ms == 0


def test_persistent_workers_save_their_start_in_each_epoch(profile):
    loader = LoaderFact(16, 2, 320, 1.0)
    start = start_of(profile, loader=loader)
    assert PERSISTENT.detect(start).applicable
    cost = start_ms(start.profile, 2).value
    # The typical iteration of 10 ms leaves the start out, the mean one has a twentieth of it.
    assert asked(start, "persistent_workers")[1] == pytest.approx(10.0 * 10.0 / (10.0 + cost / 20))
    persistent = start_of(profile, loader=replace(loader, persistent_workers=True))
    assert "already" in PERSISTENT.detect(persistent).reason
    assert (
        "not known" in PERSISTENT.detect(start_of(profile, loader=replace(loader, dataset_size=None))).reason
    )


def test_only_iterations_that_wait_for_workers_become_shorter(profile):
    """``verify`` compares iterations in the middle of an epoch, which wait for none."""
    start = start_of(profile, loader=LoaderFact(16, 2, 320, 1.0))
    made, mean_ms = asked(start, "persistent_workers")
    assert mean_ms < 0.95 * start.simulated_ms
    assert mean_ms - made.scenario.occasional_ms == pytest.approx(start.simulated_ms)
    slow_now_and_then = with_data(profile, (*(0.2,) * 4, 18.2, *(0.2,) * 4))
    waiting = start_of(slow_now_and_then, loader=LoaderFact(16, 2, None, 1.0, prefetch_factor=2))
    bridged, bridged_ms = asked(waiting, "prefetch_factor=4")
    assert bridged_ms < 0.95 * waiting.simulated_ms
    assert bridged_ms - bridged.scenario.occasional_ms == pytest.approx(waiting.simulated_ms)


def test_fresh_interpreters_take_seconds_to_start(profile):
    forked = start_ms(profile, 2).value
    for change in ({"platform": "macOS-14"}, {"python": "3.14.0"}):
        elsewhere = replace(profile, environment=replace(profile.environment, **change))
        assert start_ms(elsewhere, 2).value > 20 * forked
    assert start_ms(profile, 0).value == 0


def test_memory_that_forked_workers_share_is_copied_once_in_each_start(profile):
    weights, kept = MemoryFact(20_000_000, 0, 40_000_000, 900_000_000), 16_000_000
    blocks = [
        Allocation(float(at), size, at, Phase.FORWARD) for at, size in enumerate((kept, kept, 200_000_000))
    ]
    blocks += [replace(one, size_bytes=-one.size_bytes) for one in blocks]
    trace = replace(profile.trace, allocations=tuple(blocks))
    sharing = replace(profile, memory=weights, trace=trace, copied_us_per_mb=2000.0)
    # Data sets are only read, and blocks above 32 MiB are new in each iteration.
    assert used_bytes(sharing) == 20_000_000 + 40_000_000 + 2 * kept
    before, after = start_ms(replace(sharing, copied_us_per_mb=0.0), 1), start_ms(sharing, 1)
    assert after.value - before.value == pytest.approx(2.0 * 92)
    fresh = replace(profile.environment, python="3.14.0")
    afresh = start_ms(replace(sharing, environment=fresh), 1)
    assert afresh == start_ms(replace(profile, environment=fresh), 1), "a new interpreter shares nothing"


def test_a_longer_queue_bridges_single_slow_batches(profile):
    # One batch of nine is waited for, 18 ms; two batches more for each of two workers last 40 ms.
    now_and_then = with_data(profile, (0.2, 0.2, 0.2, 0.2, 18.2, 0.2, 0.2, 0.2, 0.2))
    start = start_of(now_and_then, loader=LoaderFact(16, 2, None, 1.0, prefetch_factor=2))
    found = PREFETCH.detect(start)
    assert found.applicable
    assert found.default == "4"
    # The mean iteration is 2 ms longer than the typical one of 8.2 ms, which waits for nothing.
    made, step_ms = asked(start, "prefetch_factor=4")
    assert step_ms == pytest.approx(8.2 * 8.2 / 10.2, rel=0.01)
    assert made.scenario.above_ms == pytest.approx(start.simulated_ms - step_ms, rel=0.01)
    assert asked(start, "prefetch_factor=1")[1] > start.simulated_ms
    # Milliseconds off the typical iteration would leave less than nothing of it.
    rare = with_data(profile, (0.2, 0.2, 0.2, 0.2, 100.2, 0.2, 0.2, 0.2, 0.2))
    waiting = start_of(rare, loader=start.profile.loaders[0], cpu_count=8)
    assert asked(waiting, "prefetch_factor=16")[1] == pytest.approx(8.2 * 8.2 / (8.2 + 100 / 9), rel=0.05)
    with pytest.raises(UsageError, match="prefetch_factor=0"):
        asked(start, "prefetch_factor=0")


def test_a_longer_queue_does_not_help_slow_workers(profile):
    slow = start_of(with_data(profile, (12.0,)), cpu_count=16, loader=LoaderFact(16, 2, None, 1.0))
    assert "too slow" in PREFETCH.detect(slow).reason
    # Now and then one takes so long that the only worker never has time to begin another one early.
    busy = start_of(
        with_data(profile, (*(0.2,) * 4, 400.2)), loader=LoaderFact(16, 1, None, 1.0), cpu_count=1
    )
    assert "busy all the time" in PREFETCH.detect(busy).reason
    ready = start_of(with_data(profile, (0.1,)), loader=LoaderFact(16, 2, None, 1.0))
    assert "the script waits for no batch" in PREFETCH.detect(ready).reason


def test_batches_that_differ_wait_less_with_a_longer_queue(profile):
    uneven = start_of(with_data(profile, (1.0, 1.0, 1.0, 1.0, 1.0, 60.0)), cpu_count=8, intraop_threads=1)
    short = asked(uneven, "num_workers=1", "prefetch_factor=1")[1]
    long = asked(uneven, "num_workers=1", "prefetch_factor=16")[1]
    assert long < 0.95 * short


def test_threads_scale_what_is_split_and_nothing_else(profile):
    start = start_of(profile, cpu_count=4, intraop_threads=2)
    assert THREADS.detect(start).default == "4"
    assert THREADS.detect(start).values == ("1", "4")
    before = start.operators
    for count, longer in (("1", True), ("4", False)):
        changed = THREADS.transform(Scenario.of(start, THREADS.grain), count, start)
        for index, task in enumerate(before.tasks):
            factor = (
                changed.graph.durations[index] / before.durations[index] if before.durations[index] else 1.0
            )
            if task.name in ("next", "aten::mul_", "python") or not before.durations[index]:
                assert factor == 1.0
            else:
                assert (factor > 1) == longer
        assert changed.below_ms > 0
        assert changed.above_ms > 0


def test_threads_are_of_no_use_where_the_gpu_computes_or_nothing_is_split(profile, gpu_profile):
    assert "on the GPU" in THREADS.detect(baseline(gpu_profile)).reason
    assert "one core" in THREADS.detect(start_of(profile, cpu_count=1, intraop_threads=1)).reason
    short = replace(
        profile.trace, records=tuple(replace(one, duration_us=20.0) for one in profile.trace.records)
    )
    assert "no operator" in THREADS.detect(baseline(replace(profile, trace=short))).reason


def test_the_number_of_threads_that_is_suggested(profile):
    assert THREADS.detect(start_of(profile, cpu_count=8, intraop_threads=2)).default == "8"
    assert THREADS.detect(start_of(profile, cpu_count=8, intraop_threads=8)).default == "4"
    # Three workers leave one core, which it uses, and no number is lower than one.
    busy = replace(ENDLESS, num_workers=3)
    assert THREADS.detect(start_of(profile, loader=busy, cpu_count=4, intraop_threads=1)).default == "2"


def test_fewer_threads_leave_a_core_to_the_worker(profile):
    # Ten of twelve ms of loading are hidden behind one thread; two threads and the worker hold each other up.
    start = start_of(with_data(profile, (4.0,)), cpu_count=2, intraop_threads=2)
    both = asked(start, "num_workers=1", "cpu_threads=1")[0].scenario
    crowded = asked(start, "num_workers=1")[0].scenario
    assert any("share 2 cores and slow each other down" in one for one in crowded.assumptions)
    assert any("workers and computing share 2 cores" in one for one in both.assumptions)


def test_threads_beside_workers_that_are_there(profile):
    slow = with_data(profile, (12.0,))
    start = start_of(slow, cpu_count=2, intraop_threads=2, loader=LoaderFact(16, 2, None, 1.0))
    assert THREADS.detect(start).default == "1"
    made, step_ms = asked(start, "cpu_threads=1")
    assert any("1 threads and 2 loader workers share 2 cores" in one for one in made.scenario.assumptions)
    assert 0 < step_ms < 2 * start.simulated_ms


@pytest.mark.parametrize("value", ["-1", "x", "1.5"])
def test_numbers_that_count_nothing(profile, value):
    start = start_of(profile)
    with pytest.raises(UsageError, match="num_workers="):
        WORKERS.transform(Scenario.of(start), value, start)


def test_all_of_it_together_with_another_batch_size(profile):
    start = start_of(profile, cpu_count=4, intraop_threads=2, loader=LoaderFact(16, 0, 1600, 1.0))
    made, step_ms = asked(start, "batch_size=32", "num_workers=2", "cpu_threads=2", "prefetch_factor=4")
    assert made.reason == ""
    assert made.scenario.batch_size == 32
    # Of the 18 ms at this size 4 are loading, which the workers hide.
    assert 14.0 < step_ms < 18.0
    assert simulate(made.scenario.graph).makespan_us > 0


def copying(profile, *, name="Memcpy HtoD"):
    """A GPU script whose iteration copies its batch, 0.3 ms, for which it waits, before 1 ms of work on the GPU."""
    records, marks = [], []
    free_us = 0.0
    for index in range(4):
        begin = 2000.0 * index

        def write(name, kind, phase, start_us, duration_us, lane="main", key=0, index=index):
            records.append(Record(name, kind, phase, lane, index, start_us, duration_us, 1, correlation=key))

        write("next", RecordKind.DATA, Phase.DATA, begin, 100.0)
        copied = max(begin + 105, free_us)
        write(
            "cudaMemcpyAsync",
            RecordKind.RUNTIME,
            Phase.FORWARD,
            begin + 100,
            copied + 200 - begin,
            key=2 * index + 1,
        )
        write(name, RecordKind.COPY, Phase.FORWARD, copied, 300.0, "stream 7", 2 * index + 1)
        launch = copied + 300
        write("cudaLaunchKernel", RecordKind.RUNTIME, Phase.FORWARD, launch, 10.0, key=2 * index + 2)
        write("sgemm", RecordKind.KERNEL, Phase.FORWARD, launch + 5, 1000.0, "stream 7", 2 * index + 2)
        free_us = launch + 1005
        write("python", RecordKind.PYTHON, Phase.OTHER, launch + 10, begin + 2000 - launch - 10)
        marks.append(IterationMark(index, begin, begin + 2000))
    trace = Trace(tuple(marks), profile.trace.lines, ("Linear",), tuple(records))
    times = BareTimes((2.0,) * 5, (0.1,) * 5, (0.0,) * 5, (0.0,) * 5)
    return replace(profile, trace=trace, loaders=(ENDLESS,), times=times)


def test_pinned_batches_are_copied_while_the_script_goes_on(gpu_profile):
    start = baseline(copying(gpu_profile))
    assert PIN.detect(start).applicable
    made, step_ms = asked(start, "pin_memory")
    # The script does not wait for 0.3 ms any more, and calls for 10 µs; the GPU has 1.3 ms of work anyhow.
    assert step_ms == pytest.approx(start.simulated_ms - 0.3, abs=0.05)
    assert step_ms > 1.3
    assert "copies only its batch" in made.scenario.assumptions[-1]


def test_what_is_pinned_already_or_never_copied(profile, gpu_profile):
    assert "nothing ran on a GPU" in PIN.detect(baseline(profile)).reason
    assert "no DataLoader" in PIN.detect(baseline(gpu_profile)).reason
    no_copy = replace(gpu_profile, loaders=(ENDLESS,))
    assert "no copy" in PIN.detect(baseline(no_copy)).reason
    pinned = copying(gpu_profile, name="Memcpy HtoD (Pinned -> Device)")
    assert not PIN.detect(baseline(pinned)).applicable
    moves = (CallFact("to", 1.0, options={"non_blocking": True}),)
    done = replace(copying(gpu_profile), loaders=(replace(ENDLESS, pin_memory=True),), calls=moves)
    assert "already" in PIN.detect(baseline(done)).reason


@pytest.mark.parametrize(
    ("value", "words"), [("1", "prepare 1 batch ahead"), ("4", "4 batches ahead"), ("", "more batches ahead")]
)
def test_the_title_of_prefetching_counts_batches(value, words):
    assert words in PREFETCH.title(value)


def test_processor_time_of_workers_that_keep_up_is_the_measured_one(profile):
    """Workers that rest leave the cores to the threads: one thread then gains nothing."""
    kept_up = with_data(profile, [0.1])
    loader = replace(ENDLESS, num_workers=2)
    unknown = start_of(kept_up, cpu_count=2, intraop_threads=2, loader=loader)
    load = MachineLoad(own_cores=1.8, others_cores=0.0, cores=2, further_cores=0.05)
    known = start_of(replace(kept_up, load=load), cpu_count=2, intraop_threads=2, loader=loader)
    guessed, measured = asked(unknown, "cpu_threads=1"), asked(known, "cpu_threads=1")
    assert measured[1] > guessed[1]
    assert any("busy half of the time" in one for one in guessed[0].scenario.assumptions)
    assert not any("busy half of the time" in one for one in measured[0].scenario.assumptions)
    busy = MachineLoad(own_cores=2.0, others_cores=0.0, cores=2, further_cores=0.9)
    crowded = start_of(replace(kept_up, load=busy), cpu_count=2, intraop_threads=2, loader=loader)
    assert asked(crowded, "cpu_threads=1")[1] < measured[1]
