"""The update on the host: copies and the update in a graph solved by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import OptimizerFact
from skyline.trace.record import Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.memory.offload_optimizer import UPDATE
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.host_bus import IN, OUT
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

PARAMETERS = 10_000_000
ADAM = OptimizerFact("AdamW", 1, 100, PARAMETERS, 2 * PARAMETERS * 4, {})
COPY_MS = 4 * PARAMETERS / (0.8 * 32e3) / 1e3
UPDATE_MS = 28 * PARAMETERS / 60e3 / 1e3


@pytest.fixture
def stepping(gpu_steps, on_a100):
    """Each pass and the update take 5 ms on the GPU."""
    return replace(on_a100(gpu_steps(300.0, 200.0, 100.0, 15_000.0), 15.0, 0.2, 0.1), optimizers=(ADAM,))


def test_copies_and_the_update_follow_the_backward_pass(stepping):
    """5 ms forward and 5 ms backward, 1.6 ms out, 4.7 ms on the host, 1.6 ms back; the kernel of the update is gone."""
    subject = baseline(stepping)
    found = answer(subject, [Choice("offload_optimizer")])
    assert found.reason is None
    assert 15.0 / found.speedup == pytest.approx(10.0 + 2 * COPY_MS + UPDATE_MS, rel=0.02)
    assert found.provenance == "assumed"
    graph = compose(subject, [Choice("offload_optimizer")]).scenario.graph
    assert graph.durations[select(graph, kind=TaskKind.KERNEL, phase=Phase.OPTIMIZER)].sum() == 0
    for name, ms in ((OUT, COPY_MS), (IN, COPY_MS), (UPDATE, UPDATE_MS)):
        assert graph.durations[select(graph, name=name, iteration=1)].sum() == pytest.approx(1e3 * ms)


def test_the_state_is_not_on_the_gpu(stepping):
    subject = baseline(stepping)
    held = replace(subject, peak=replace(subject.peak, optimizer=8 * PARAMETERS, parameters=4 * PARAMETERS))
    after = compose(held, [Choice("offload_optimizer")]).scenario.memory
    assert after.optimizer == 0
    assert after.parameters == 4 * PARAMETERS


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (None, "no PyTorch optimizer"),
        (replace(ADAM, name="SGD", state_bytes=0), "keeps no state"),
        (replace(ADAM, name="Rprop"), "not known"),
    ],
)
def test_what_it_needs_to_know(stepping, fact, reason):
    subject = baseline(replace(stepping, optimizers=() if fact is None else (fact,)))
    assert reason in detected_in(subject, whatifs()["offload_optimizer"]).reason


def test_not_on_a_cpu(profile):
    assert "nothing ran on a GPU" in detected_in(baseline(profile), whatifs()["offload_optimizer"]).reason
