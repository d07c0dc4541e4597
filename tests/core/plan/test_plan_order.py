"""The order of strategies: the best first, and among equally good ones the one whose code Skyline writes."""

import pytest

from skyline.interval import Interval
from skyline.report.plan_order import Standing, ordered


def _standing(cost, *, written=False, objection=False, group=0, spread=0.1):
    return Standing(objection, Interval(cost, cost * (1 - spread), cost * (1 + spread)), written, group)


def test_the_cheapest_comes_first_and_objections_last():
    assert ordered([_standing(3.0), _standing(1.0, objection=True), _standing(2.0)]) == [2, 0, 1]


def test_the_written_one_comes_before_its_equals_alone():
    far, near, written = _standing(100.0), _standing(100.8), _standing(101.0, written=True)
    assert ordered([far, near, written]) == [0, 2, 1]


def test_written_ones_keep_their_order():
    standings = [_standing(100.0), _standing(100.1, written=True), _standing(100.2, written=True)]
    assert ordered(standings) == [1, 2, 0]


def test_equals_that_are_not_written_keep_their_order():
    assert ordered([_standing(100.0), _standing(100.0), _standing(99.9)]) == [2, 0, 1]


@pytest.mark.parametrize(
    "written",
    [
        _standing(100.6, written=True),
        _standing(100.2, written=True, spread=0.001),
        _standing(100.2, written=True, objection=True),
        _standing(100.2, written=True, group=1),
    ],
    ids=["more than half a per cent", "outside its range", "misses a term", "another size"],
)
def test_others_are_no_equals(written):
    assert ordered([_standing(100.0), written]) == [0, 1]
