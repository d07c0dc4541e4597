"""The sentence that says what an iteration is, from what a run showed of itself."""

from __future__ import annotations

import pytest

from skyline.capture.bare import BareRows
from skyline.capture.events import OptimizerSeen, RunFacts, StepRow
from skyline.capture.iteration import iteration_fact
from skyline.trace.facts import Device, Environment
from skyline.trace.record import CodeLine

ENVIRONMENT = Environment(
    device=Device("CPU", "cpu"),
    python="3.11",
    torch="2.13",
    platform="Linux",
    cpu_count=2,
    intraop_threads=1,
    memory_capacity_bytes=1,
)


def optimizer(name: str, line: int, *, steps: int = 10, lately: int = 1, skipped: int = 0) -> OptimizerSeen:
    place = CodeLine("/project/train.py", line, "train")
    return OptimizerSeen(name, steps, 1, 1, 0, {}, place, None, skipped, lately)


def facts(*optimizers: OptimizerSeen, styles: tuple[str, ...] = (), **fields: int) -> RunFacts:
    return RunFacts(optimizers, (), (), ENVIRONMENT, (), styles, **fields)


def rows(*, backward: int = 1, batches: int = 1, steps: int = 1) -> BareRows:
    return BareRows([StepRow(1.0, 0.1, 0.1, 0.1, batches, backward, steps)] * 3)


@pytest.mark.parametrize(
    ("seen", "timed", "meaning"),
    [
        (facts(optimizer("Adam", 7)), rows(), "one step of Adam (train.py line 7)"),
        (
            facts(optimizer("Adam", 7)),
            rows(backward=4, batches=4),
            "one step of Adam (train.py line 7), with 4 backward passes over 4 batches (gradient accumulation)",
        ),
        (
            # The critic stepped once before the generator's first step: the count since the start is no ratio.
            facts(optimizer("RMSprop", 9, steps=3), optimizer("RMSprop", 5, steps=11, lately=5)),
            rows(backward=6, steps=6),
            "one step of RMSprop (train.py line 9) and 5 steps of RMSprop (train.py line 5), with 6 backward passes",
        ),
        (
            facts(optimizer("Adam", 5), optimizer("Adam", 9)),
            rows(backward=3, steps=2),
            "one step each of Adam (train.py line 5) and Adam (train.py line 9), with 3 backward passes",
        ),
        (
            facts(optimizer("LBFGS", 7), styles=("closure",)),
            rows(backward=5),
            "one step of LBFGS (train.py line 7), whose closure runs forward and backward 5 times",
        ),
        (
            facts(passes_per_update=3),
            rows(backward=3, steps=0),
            "one update that the script makes by hand, without a torch optimizer: 3 backward passes",
        ),
        (
            facts(optimizer("AdamW", 7), styles=("Accelerate", "Hugging Face Trainer")),
            rows(),
            "one step of AdamW (train.py line 7), in the loop of Hugging Face Trainer",
        ),
        (
            facts(optimizer("SGD", 7), world_size=4),
            rows(),
            "one step of SGD (train.py line 7), on rank 0 of 4",
        ),
        (
            facts(optimizer("SGD", 7, skipped=2)),
            rows(),
            "one step of SGD (train.py line 7); 2 of the first 10 steps were skipped by the gradient scaler (overflow)",
        ),
    ],
)
def test_meaning(seen: RunFacts, timed: BareRows, meaning: str) -> None:
    assert iteration_fact(seen, timed).meaning == meaning
