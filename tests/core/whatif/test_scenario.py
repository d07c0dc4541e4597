"""Additions of a change to a scenario, and how the uncertainties of several changes combine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skyline.graph.graph import Graph, Structure
from skyline.interval import Interval
from skyline.whatif.base import Scenario

EMPTY = Graph(Structure(()), ())


def scenario(**given) -> Scenario:
    return Scenario(EMPTY, given.pop("memory", None), given.pop("batch_size", 8), **given)


def test_uncertainties_of_two_changes_combine_as_independent_ones():
    twice = scenario().changed(EMPTY, below_ms=3, above_ms=5).changed(EMPTY, below_ms=4, above_ms=12)
    assert (twice.below_ms, twice.above_ms) == (5, 13)
    same = twice.changed(EMPTY)
    assert (same.below_ms, same.above_ms) == (5, 13)


def test_an_assumption_is_named_once_and_in_order():
    changed = scenario(assumptions=("a",)).changed(EMPTY, assumptions=("b", "a")).changed(EMPTY)
    assert changed.assumptions == ("a", "b")


def test_what_is_spent_once_and_now_and_then_adds_up():
    first = scenario().changed(EMPTY, one_off_s=Interval(1, 0.5, 2), occasional=Interval(2, 2, 5))
    assert first.one_off_s == Interval(1, 0.5, 2)
    both = first.changed(EMPTY, one_off_s=Interval(3, 2, 5), occasional=Interval(1, 0, 5))
    assert (both.one_off_s, both.occasional_ms) == (Interval(4, 2.5, 7), 3)
    assert (both.occasional, both.above_ms) == (Interval(3, 2, 8), 5)
    assert both.changed(EMPTY).one_off_s == Interval(4, 2.5, 7)
    assert scenario().changed(EMPTY).one_off_s is None


def test_memory_is_changed_where_it_is_known_and_said_to_change_where_it_is_not():
    assert scenario(memory="m").changed(EMPTY, memory=lambda known: known + "+").memory == "m+"
    unchanged = scenario(memory="m").changed(EMPTY)
    assert (unchanged.memory, unchanged.memory_changed) == ("m", False)
    unknown = scenario().changed(EMPTY, memory=lambda known: known)
    assert (unknown.memory, unknown.memory_changed) == (None, True)
    assert unknown.changed(EMPTY).memory_changed


@pytest.mark.parametrize(("now", "recorded", "factor"), [(32, 8, 4), (None, 8, 1), (32, None, 1), (0, 8, 1)])
def test_the_batch_factor_is_that_of_the_recorded_size(now, recorded, factor):
    subject = SimpleNamespace(batch_size=recorded)
    assert scenario(batch_size=now).batch_factor(subject) == factor
    assert scenario(batch_size=now).batch_factor(SimpleNamespace(batch_size=None)) == 1


def test_the_bounds_are_the_best_and_the_worst_case_and_never_on_the_wrong_side():
    steps = {"likely": 10.0, "least": 7.0, "most": 15.0}
    graphs = {name: Graph(Structure(()), ()) for name in steps}
    subject = SimpleNamespace(step_ms=lambda graph: next(steps[n] for n, g in graphs.items() if g is graph))
    found = scenario().between(subject, graphs["likely"], graphs["least"], graphs["most"], assumptions=("a",))
    assert (found.graph, found.below_ms, found.above_ms) == (graphs["likely"], 3, 5)
    assert found.assumptions == ("a",)
    once = Interval(1, 0.5, 2)
    paid = scenario().between(subject, graphs["likely"], graphs["least"], graphs["most"], one_off_s=once)
    assert paid.one_off_s == once
    turned = scenario().between(subject, graphs["likely"], graphs["most"], graphs["least"])
    assert (turned.below_ms, turned.above_ms) == (0, 0)
