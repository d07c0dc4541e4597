from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.simulate.engine import simulate
from skyline.trace.facts import LoaderFact
from skyline.trace.phase import Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.amp import WHATIF as AMP
from skyline.whatif.catalogue.batch_size import WHATIF as BATCH_SIZE
from skyline.whatif.catalogue.batch_size import shown_sizes
from skyline.whatif.catalogue.fused_optimizer import WHATIF as FUSED
from skyline.whatif.catalogue.num_workers import WHATIF as WORKERS
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatif_named, whatifs
from skyline.whatif.scenario import Scenario

SMALL_BATCH = 4_000  # bytes: handing it over costs nothing to speak of


def start_of(profile):
    return replace(baseline(profile), batch_bytes=SMALL_BATCH)


def scenario_of(start):
    return Scenario.of(start)


def with_machine(profile, **changes):
    return replace(profile, environment=replace(profile.environment, **changes))


def steady_ms(scenario):
    return simulate(scenario.graph).iteration_ms("main", skip=max(1, len(scenario.graph.iterations) // 2))


def test_every_module_with_a_whatif_is_found():
    names = list(whatifs())
    assert names[0] == "batch_size"
    assert names[-1] == "num_workers"
    assert {"amp", "cuda_graphs", "fused_optimizer", "pin_memory", "remove_sync"} < set(names)
    assert whatif_named("amp") is AMP
    with pytest.raises(UsageError, match="no what-if 'magic'"):
        whatif_named("magic")


def test_the_baseline_simulates_to_the_bare_time(profile):
    start = baseline(profile)
    assert start.simulated_ms == pytest.approx(10.0)
    assert start.phases.total == pytest.approx(start.iteration_ms.value)


def test_the_gpu_baseline_slows_the_host_until_it_fits(gpu_profile):
    start = baseline(gpu_profile)
    assert start.simulated_ms == pytest.approx(2.013, rel=0.02)


def test_a_measured_batch_size_is_what_was_measured(profile):
    start = baseline(profile)
    changed = BATCH_SIZE.transform(scenario_of(start), "32", start)
    assert simulate(changed.graph).iteration_ms("main") == pytest.approx(18.0)
    assert changed.memory.peak_bytes == Interval.exact(109e6)
    assert changed.batch_size == 32
    assert not changed.extrapolated


def test_a_batch_size_beyond_the_memory_is_refused(profile):
    start = baseline(with_machine(profile, memory_capacity_bytes=80_000_000))
    changed = BATCH_SIZE.transform(scenario_of(start), "128", start)
    assert "does not fit" in changed.reason
    assert shown_sizes(start) == (4, 8, 16)


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5"])
def test_a_batch_size_that_is_none_is_an_error(profile, value):
    start = baseline(profile)
    with pytest.raises(UsageError, match="batch_size="):
        BATCH_SIZE.transform(scenario_of(start), value, start)


def test_unknown_is_not_no_gain(profile):
    found = BATCH_SIZE.detect(baseline(replace(profile, points=())))
    assert not found.applicable
    assert found.reason == "no other batch size was measured"


def test_a_worker_hides_loading_where_cores_are_free(profile):
    start = start_of(with_machine(profile, cpu_count=8, intraop_threads=1))
    changed = WORKERS.transform(scenario_of(start), "1", start)
    # 8 ms of computing remain, and what handing over and busy neighbours cost.
    assert 8.0 < steady_ms(changed) < 8.8
    assert changed.below_ms > 0


def test_workers_do_not_create_cores(profile):
    start = start_of(with_machine(profile, cpu_count=1, intraop_threads=1))
    assert steady_ms(WORKERS.transform(scenario_of(start), "4", start)) >= 10.0


def test_one_worker_cannot_keep_up_with_a_slow_loader_and_three_can(profile):
    slow = replace(profile, times=replace(profile.times, data_ms=tuple(8.0 for _ in profile.times.data_ms)))
    slow = replace(
        slow,
        times=replace(
            slow.times, backward_ms=tuple(0.5 for _ in range(9)), optimizer_ms=tuple(0.5 for _ in range(9))
        ),
    )
    start = start_of(with_machine(slow, cpu_count=16, intraop_threads=1))
    one = steady_ms(WORKERS.transform(scenario_of(start), "1", start))
    three = steady_ms(WORKERS.transform(scenario_of(start), "3", start))
    assert one == pytest.approx(8.0 * 1.04, rel=0.03)
    assert three == pytest.approx(8.0 / 3 * 1.04, rel=0.12)
    assert WORKERS.detect(start).default == "4"


def test_workers_are_pointless_without_a_loader_or_with_workers_in_place(profile):
    assert "no DataLoader" in WORKERS.detect(baseline(replace(profile, loaders=()))).reason
    busy = replace(profile, loaders=(LoaderFact(16, 2, 100, 1.0),))
    assert "already has 2 workers" in WORKERS.detect(baseline(busy)).reason


def test_fusing_touches_the_optimizer_alone(profile):
    start = baseline(profile)
    changed = FUSED.transform(scenario_of(start), "", start)
    for index, task in enumerate(start.outline.tasks):
        same = changed.graph.durations[index] == start.outline.durations[index]
        assert same == (task.phase is not Phase.OPTIMIZER or start.outline.durations[index] == 0)
    assert steady_ms(changed) < 10.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"options": {"fused": True}}, "fused already"),
        ({"name": "SparseAdam"}, "SparseAdam has no fused form"),
        ({"name": "SGD", "state_bytes": 0, "options": {"foreach": True}}, "SGD has no fused form that moves fewer"),
    ],
)
def test_optimizers_that_gain_nothing_are_told(profile, change, reason):
    changed = replace(profile, optimizers=(replace(profile.optimizers[0], **change),))
    found = FUSED.detect(baseline(changed))
    assert not found.applicable
    assert reason in found.reason


def test_fused_on_the_cpu_needs_a_recent_pytorch(profile):
    assert "2.1.0 has no fused form" in FUSED.detect(baseline(with_machine(profile, torch="2.1.0"))).reason


def test_bf16_without_its_instructions_is_not_offered(profile):
    assert AMP.detect(baseline(profile)).reason == "this CPU emulates bf16, it would be slower"


def test_bf16_shortens_products_and_leaves_the_rest(profile):
    start = baseline(with_machine(profile, cpu_features=("avx512_bf16",)))
    assert AMP.detect(start).applicable
    changed = AMP.transform(scenario_of(start), "bf16", start)
    halved = {
        task.name
        for index, task in enumerate(start.outline.tasks)
        if changed.graph.durations[index] < start.outline.durations[index]
    }
    assert halved == {"aten::linear", "AddmmBackward0"}
    assert changed.memory.peak_bytes.value < start.peak.total
    with pytest.raises(UsageError, match="not possible"):
        AMP.transform(scenario_of(start), "fp8", start)


def test_choices_are_read_as_typed():
    assert Choice.parse(" num_workers = 2 ") == Choice("num_workers", "2")
    assert str(Choice.parse("amp")) == "amp"
    with pytest.raises(UsageError):
        Choice.parse("=2")
