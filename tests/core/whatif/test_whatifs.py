from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.simulate.engine import simulate
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Phase
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.memory.batch_size import WHATIF as BATCH_SIZE
from skyline.whatif.catalogue.memory.batch_size import shown_sizes
from skyline.whatif.catalogue.models.fused_optimizer import WHATIF as FUSED
from skyline.whatif.catalogue.numerics.amp import WHATIF as AMP
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatif_named, whatifs


def scenario_of(start):
    return Scenario.of(start)


def with_machine(profile, **changes):
    return replace(profile, environment=replace(profile.environment, **changes))


def steady_ms(scenario):
    return simulate(scenario.graph).iteration_ms("main", skip=max(1, len(scenario.graph.iterations) // 2))


def test_every_module_with_a_whatif_is_found():
    names = list(whatifs())
    assert names[0] == "batch_size"
    assert names[-4:] == ["cpu_threads", "num_workers", "persistent_workers", "prefetch_factor"]
    assert {"amp", "cuda_graphs", "fused_optimizer", "pin_memory", "remove_sync"} < set(names)
    assert whatif_named("amp") is AMP
    with pytest.raises(UsageError, match="no what-if 'magic'") as unknown:
        whatif_named("magic")
    assert unknown.value.hint.startswith("Known: adaptive_softmax, amp, batch_size")
    with pytest.raises(UsageError) as misspelt:
        whatif_named("fused_optimiser")
    assert misspelt.value.hint == "Did you mean fused_optimizer?"


def test_a_whatif_is_called_like_its_module():
    own = [one for one in whatifs().values() if type(one).__module__.startswith("skyline.whatif.catalogue")]
    assert len(own) > 40
    assert [one.name for one in own] == [type(one).__module__.rpartition(".")[2] for one in own]


def test_one_whatif_is_found_without_the_others():
    program = (
        "import sys\n"
        "from skyline.whatif.registry import problems, whatif_named\n"
        "assert whatif_named('amp').name == 'amp' and not problems()\n"
        "assert 'skyline.whatif.catalogue.host.compile' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


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
    # Memory of the run besides its model is there at any size, except the batch.
    assert changed.memory.parameters == start.memory.parameters
    assert changed.batch_size == 32
    assert not changed.extrapolated


def test_a_batch_size_beyond_the_memory_is_refused(profile):
    start = baseline(with_machine(profile, memory_capacity_bytes=80_000_000))
    assert "does not fit" in compose(start, (Choice("batch_size", "128"),)).reason
    assert shown_sizes(start) == (4, 8, 16)


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5"])
def test_a_batch_size_that_is_none_is_an_error(profile, value):
    start = baseline(profile)
    with pytest.raises(UsageError, match="batch_size="):
        BATCH_SIZE.transform(scenario_of(start), value, start)


def test_unknown_is_not_no_gain(profile):
    found = BATCH_SIZE.detect(baseline(replace(profile, trials=())))
    assert not found.applicable
    assert found.reason == "no other batch size was measured"


def test_fusing_touches_the_optimizer_alone_where_the_model_fits_into_the_caches(profile):
    start = baseline(replace(profile, memory=MemoryFact(1_000_000, 1_000_000, 2_000_000, 0)))
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
        (
            {"name": "SGD", "state_bytes": 0, "options": {"foreach": True}},
            "SGD has no fused form that moves fewer",
        ),
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
    assert AMP.detect(baseline(profile)).reason == "this CPU emulates bf16, so that it would be slower"


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
