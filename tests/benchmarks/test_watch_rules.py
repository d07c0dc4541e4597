"""The count of the watch's rules: the cases of the tests, the baseline, and the page."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")


@dataclass(frozen=True)
class Training:
    shows: frozenset[str]
    follows: frozenset[str] = frozenset()

    def seeded(self, seed: int) -> str:
        return str(seed)


def test_the_streams_of_the_tests_are_counted_by_rule() -> None:
    from watch_rules import beside_the_tests, of_streams, wrong

    cases = beside_the_tests("cases")
    outcomes = of_streams(cases.SHOWS, cases.SHOWS_NOT)
    assert {one.rule for one in outcomes if one.shows} == set(cases.SHOWS)
    assert len(outcomes) == sum(map(len, [*cases.SHOWS.values(), *cases.SHOWS_NOT.values()]))
    assert not wrong(outcomes)
    # The baseline sees a loss that is not finite, and no stalled loader.
    by_loss = {one.rule for one in outcomes if one.shows and one.by_loss}
    assert "loss_not_finite" in by_loss
    assert "loader_stalls" not in by_loss


def test_the_baseline_looks_at_the_loss_alone() -> None:
    from watch_rules import LossThreshold, beside_the_tests

    cases = beside_the_tests("cases")

    def alarm(**fields: float) -> bool:
        return cases.of(cases.windows(3, **fields)).alert_of(LossThreshold()) is not None

    assert not alarm(wait_s=0.4)
    assert not alarm(loss=9.0, largest_loss=10.0)
    assert alarm(loss=9.0, largest_loss=11.0)
    assert alarm(loss=math.nan, largest_loss=math.nan)


def test_a_training_counts_for_every_rule_but_those_that_follow() -> None:
    from watch_rules import BASELINE, of_training, page, wrong

    training = Training(frozenset({"loss_not_finite"}), frozenset({"exploding_gradients"}))
    held = {"0": {"loss_not_finite", "exploding_gradients", BASELINE}, "1": {"gpu_idle"}}
    outcomes = of_training("diverges", training, held.__getitem__, 2)
    assert "exploding_gradients" not in {one.rule for one in outcomes}
    assert [(one.rule, one.shows, one.found) for one in wrong(outcomes)] == [
        ("gpu_idle", False, True),
        ("loss_not_finite", True, False),
    ]
    assert "Other programs ran" in page(outcomes, busy=True)
    text = page(outcomes, busy=False)
    assert "Other programs ran" not in text
    row = next(line for line in text.splitlines() if line.startswith("| `loss_not_finite`"))
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["-", "-", "1 of 2", "-", "1 of 2", "-"]
    assert "- `loss_not_finite` missed training *diverges, seed 1*" in text
    assert "- `gpu_idle` gave a false alarm in training *diverges, seed 1*" in text
    assert "No training shows the problem of:" in text


def test_every_training_shows_problems_of_known_rules() -> None:
    from watch_rules import beside_the_tests

    from skyline.watch.registry import known_rules

    trainings = beside_the_tests("trainings").TRAININGS
    for training in trainings.values():
        assert training.shows <= set(known_rules().classes)
        assert training.seeded(7) != training.text
    # Each problem has a training without it.
    assert any(not training.shows for training in trainings.values())
