"""A rank reduced to its collectives behaves towards the others as the whole rank does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Tasks
from skyline.job.rank_graph import RankGraph
from skyline.job.rank_reader import reduced
from skyline.simulate.engine import simulate


@st.composite
def ranks(draw):
    """A graph of forward dependencies, some of whose tasks are collectives, and a step's end on another lane."""
    count = draw(st.integers(3, 14))
    lane = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    durations = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    gaps = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=16))
    pairs = [(first, second) for first, second in pairs if first < second]
    lags = draw(st.lists(st.integers(0, 5), min_size=len(pairs), max_size=len(pairs)))
    from_start = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    chosen = draw(st.lists(st.integers(0, count - 2), unique=True, max_size=6).map(sorted))
    tasks = Tasks.columns(count, ["task"], ["a", "b", "c"], lane=lane)
    waits = Dependencies.columns(
        [first for first, _ in pairs], [second for _, second in pairs], Cause.GIVEN, lags, from_start
    )
    graph = Graph(Structure(tasks, waits), durations, gaps)
    return RankGraph(graph, np.array(chosen, np.int64), np.array([count - 1]), 0.0)


def points(rank, took):
    """When the collectives are arrived at and the step ends, if the collectives take so long."""
    durations = rank.graph.durations.copy()
    durations[rank.exchange] = took
    starts = simulate(rank.graph.with_times(durations=durations)).starts
    return [*starts[rank.exchange], *starts[rank.step_end]]


@settings(max_examples=150)
@given(ranks(), st.data())
def test_arrivals_come_out_alike_however_long_collectives_take(rank, data):
    count = len(rank.exchange)
    took = [float(data.draw(st.integers(0, 60))) for _ in range(count)]
    small = reduced(rank)
    assert len(small.graph) == 1 + count + 1
    assert points(small, took) == pytest.approx(points(rank, took))


def test_a_detour_makes_a_link_needless():
    """A chain of three collectives needs a link from each to the next, not from the first to the last."""
    tasks = Tasks.columns(6, ["task"], ["a"])
    graph = Graph(Structure(tasks), [1.0, 5.0, 2.0, 5.0, 3.0, 5.0])
    small = reduced(RankGraph(graph, np.array([1, 3, 5]), np.array([5]), 0.0)).graph
    links = [(one.source, one.target, one.lag_us) for one in small.structure.dependencies]
    assert links[:3] == [(0, 1, 1.0), (1, 2, 2.0), (2, 3, 3.0)]
