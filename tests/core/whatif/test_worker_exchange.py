"""Workers that a script does not have yet: an exchange of gradients that is solved by hand, and the same in slices.

Two layers take 10 ms in each pass on the GPU. Between two workers at 10 Gbit/s, of which 80 % are reached, the 20 MB of
the second layer take 20 ms, and the 10 MB of the first one 10 ms.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer, ranked
from skyline.errors import UsageError
from skyline.graph.replication import stitch
from skyline.trace.facts import ModuleFact, ParallelFact
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.p3 import sliced
from skyline.whatif.composition import detected_in
from skyline.whatif.cost.worker_exchange import Workers
from skyline.whatif.number_formats import gpu
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

LAYER_US = 10_000.0


def layer(number: int, megabytes: float) -> ModuleFact:
    return ModuleFact(f"Net.{number}", "Linear", True, int(megabytes * 1e6 / 4), True, {})


@pytest.fixture
def alone(two_layers):
    return two_layers(LAYER_US)


def step_ms(found, before_ms: float = 40.1) -> float:
    """The step that the speed of two workers tells: twice the samples."""
    return 2 * before_ms / found.speedup


def test_the_update_waits_for_the_last_bucket(alone):
    """The first bucket leaves at 30 ms and takes 20 ms, the second one follows; then the update takes its 0.1 ms."""
    found = answer(baseline(alone), [Choice("data_parallel", "2")])
    assert step_ms(found) == pytest.approx(60.1, rel=0.01)
    assert found.throughput.low < found.throughput.value < found.throughput.high


def test_the_first_layers_slices_overtake_those_of_the_last(alone):
    """At 40 ms half of the second layer is on its way. The first layer goes before the rest, until 50 ms.

    The next forward pass begins then, and its second layer meets its last slice at 60 ms. A step takes 50 ms; the last
    of the simulated ones waits for all its slices.
    """
    found = answer(baseline(alone), [Choice("p3", "2@10")])
    assert step_ms(found) == pytest.approx(50.0, rel=0.03)


def test_priorities_are_what_brings_it(alone):
    subject = baseline(alone)
    graph = stitch(subject.operators, 12)
    workers = Workers(2, 10.0)
    first, by_priority = (
        subject.step_ms(sliced(subject, graph, workers, 0.8, by_priority=one)) for one in (False, True)
    )
    assert first == pytest.approx(60.0, rel=0.03)
    assert by_priority == pytest.approx(50.0, rel=0.03)


@pytest.mark.parametrize("name", ["data_parallel", "p3"])
def test_a_fast_link_hides_the_exchange(alone, name):
    found = answer(baseline(alone), [Choice(name, "2@10000")])
    assert found.speedup == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("name", ["data_parallel", "p3"])
def test_a_slow_link_bounds_the_step(alone, name):
    """The exchange of 30 MB takes 30 s at 10 Mbit/s, whatever computes meanwhile."""
    found = answer(baseline(alone), [Choice(name, "2@0.01")])
    assert step_ms(found) == pytest.approx(30_000.0, rel=0.05)


def test_it_is_answered_only_where_workers_are_named(alone):
    listed = {one.name: one for one in ranked(baseline(alone))}
    assert not listed["data_parallel"].applicable
    assert "needs a number of workers" in listed["data_parallel"].reason
    with pytest.raises(UsageError, match="not possible"):
        answer(baseline(alone), [Choice("data_parallel", "2@")])


def test_reasons_where_it_cannot_be_told(alone):
    several = ParallelFact(
        "DistributedDataParallel", "nccl", 4, None, False, False, False, gradient_bytes=10**7
    )
    for profile, reason in (
        (replace(alone, parallel=several), "several ranks"),
        (replace(alone, modules=()), "the trained modules"),
        (replace(alone, modules=(replace(layer(0, 1), path="Other"),)), "assignment of work to modules"),
    ):
        assert reason in detected_in(baseline(profile), whatifs()["p3"]).reason


def test_the_largest_gradients_alone_travel(alone):
    """1 % of the 10 MB of the first layer, with indices, are 0.2 MB, and take 0.2 ms to the other worker.

    Choosing them reads 10 MB eight times. The second layer's are through before. The update takes 0.1 ms.
    """
    found = answer(baseline(alone), [Choice("topk", "0.01:2@10")])
    reading_ms = 8 * 10 / gpu(baseline(alone)).bandwidth_gb_s
    assert step_ms(found) == pytest.approx(40.0 + reading_ms + 0.008 + 0.2 + 0.1, abs=0.002)
    assert found.semantics == "convergence"


def test_half_of_the_gradients_with_indices_are_as_many_bytes(alone):
    """Half the numbers at twice the width, sent once: what a ring of two workers sends, and the choice."""
    dense = answer(baseline(alone), [Choice("data_parallel", "2@10")])
    found = answer(baseline(alone), [Choice("topk", "0.5:2@10")])
    reading_ms = 8 * 30 / gpu(baseline(alone)).bandwidth_gb_s
    assert step_ms(found) == pytest.approx(step_ms(dense) + reading_ms, abs=0.05)


@pytest.mark.parametrize("value", ["", "0", "0.9", "much", "0.01:1", "0.01"])
def test_a_ratio_and_workers_are_asked_for(alone, value):
    with pytest.raises(UsageError):
        whatifs()["topk"].transform(Scenario.of(baseline(alone), Grain.OPERATORS), value, baseline(alone))
