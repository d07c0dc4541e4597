"""Batches of an iteration: those of the usual one, whatever an evaluation takes now and then."""

from __future__ import annotations

import pytest

from skyline.capture.bare import BareRows
from skyline.capture.early_facts import micro_batches
from skyline.capture.events import LoaderSeen, OptimizerSeen, RunFacts, StepRow
from skyline.trace.facts import Device, Environment

ENVIRONMENT = Environment(
    device=Device("CPU", "cpu"),
    python="3.11",
    torch="2.13",
    platform="Linux",
    cpu_count=2,
    intraop_threads=1,
    memory_capacity_bytes=1,
)


def rows(fetches: list[int]) -> BareRows:
    return BareRows([StepRow(1.0, 0.1, 0.1, 0.1, count, count, 1) for count in fetches])


@pytest.mark.parametrize(
    ("fetches", "batches"),
    [
        ([1] * 10, 1),
        ([1] * 9 + [30], 1),  # the training set and the test set are evaluated after an epoch of ten batches
        ([4] * 8, 4),
        ([4] * 7 + [40], 4),
    ],
)
def test_an_evaluation_is_no_batch_of_the_training(fetches: list[int], batches: int) -> None:
    loader = LoaderSeen(16, 0, 160, 10, False, False, None)
    facts = RunFacts((OptimizerSeen("Adam", 10, 1, 1, 0, {}, None, None),), (loader,), (), ENVIRONMENT)
    assert micro_batches(facts, rows(fetches)) == batches
