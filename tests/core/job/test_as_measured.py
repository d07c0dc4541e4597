"""Work between collectives, taken as measured."""

from __future__ import annotations

import pytest

from skyline.job.rank_reader import as_measured
from skyline.simulate.engine import simulate


def starts(rank, took):
    """When collectives begin and steps end, if the collectives take so long."""
    durations = rank.graph.durations.copy()
    durations[rank.exchange] = took
    found = simulate(rank.graph.with_times(durations=durations)).starts
    return found[rank.exchange].tolist(), found[rank.step_end].tolist()


def test_one_after_the_other(make_rank):
    rank = as_measured(make_rank(0, [(10.0, 30.0), (1045.0, 1060.0)], steps=[(0.0, 40.0), (40.0, 1070.0)]))
    assert starts(rank, [20.0, 15.0]) == ([10.0, 1045.0], [40.0, 1070.0])
    assert starts(rank, [120.0, 15.0]) == ([10.0, 1145.0], [140.0, 1170.0])


def test_what_runs_at_once_stays_at_once(make_rank):
    """The second is under way while the first runs: it began a while after the first did, whatever that takes."""
    rank = as_measured(make_rank(0, [(10.0, 5000.0), (40.0, 6000.0)], steps=[(0.0, 7000.0)]))
    assert len(rank.graph.structure.lanes) == 4
    assert starts(rank, [9000.0, 5960.0])[0] == [10.0, 40.0]


def test_an_end_that_is_noted_late(make_rank):
    """The step went on when its collective was over, 50 µs before that was noted: it waited for it all the same."""
    rank = as_measured(
        make_rank(0, [(10.0, 1000.0), (2000.0, 3000.0)], steps=[(0.0, 950.0), (950.0, 3100.0)])
    )
    begin, end = starts(rank, [90.0, 1000.0])
    assert begin == pytest.approx([10.0, 1100.0])
    assert end == pytest.approx([50.0, 2200.0])


def test_no_collective(make_rank):
    rank = as_measured(make_rank(0, [], steps=[(0.0, 40.0)]))
    assert starts(rank, []) == ([], [40.0])
