"""Jobs whose collectives follow from the ranks' own work: simulation finds the same, also where the work changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.job.alignment import align
from skyline.job.job import as_fast_as, typical
from skyline.job.rank_reader import as_measured
from skyline.job.times import measured, simulated
from skyline.job.waiting import waiting

TRANSFER_US = 25.0


def job(make_rank, own, shifts=None):
    """``own[rank][k]``: the work of a rank before its collective ``k``; the last entry is what follows them."""
    own = np.array(own, float)
    count = own.shape[1] - 1
    ends = []
    arrivals = np.zeros((len(own), count))
    now = np.zeros(len(own))
    for k in range(count):
        arrivals[:, k] = now + own[:, k]
        ends.append(arrivals[:, k].max() + TRANSFER_US)
        now[:] = ends[-1]
    return align(
        [
            make_rank(
                rank,
                list(zip(mine.tolist(), ends, strict=True)),
                steps=[(0.0, ends[-1] + last)],
                shift_us=0.0 if shifts is None else shifts[rank],
            )
            for rank, (mine, last) in enumerate(zip(arrivals, own[:, -1].tolist(), strict=True))
        ]
    )


works = st.integers(2, 4).flatmap(
    lambda ranks: st.integers(2, 6).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(1, 300), min_size=count + 1, max_size=count + 1),
            min_size=ranks,
            max_size=ranks,
        )
    )
)


@settings(max_examples=60)
@given(works, st.lists(st.integers(-(10**7), 10**7), min_size=4, max_size=4))
def test_a_job_is_simulated_as_it_ran(make_rank, own, shifts):
    alignment = job(make_rank, own, shifts)
    graphs = [as_measured(one) for one in alignment.ranks]
    ours, theirs = simulated(alignment, waiting(alignment), graphs), measured(alignment)
    assert np.concatenate(ours.ends_us) == pytest.approx(np.concatenate(theirs.ends_us), abs=1e-3)


@settings(max_examples=60)
@given(works, st.data())
def test_a_rank_that_works_as_another_does(make_rank, own, data):
    """The job comes out as one in which both do the same work."""
    place = data.draw(st.integers(0, len(own) - 1))
    model = data.draw(st.integers(0, len(own) - 1).filter(lambda other: other != place))
    alignment = job(make_rank, own)
    graphs = as_fast_as(alignment, [as_measured(one) for one in alignment.ranks], place, model)
    assert graphs is not None
    ours = simulated(alignment, waiting(alignment), graphs)
    expected = measured(job(make_rank, [own[model] if at == place else work for at, work in enumerate(own)]))
    assert ours.whole_us == pytest.approx(expected.whole_us, abs=1e-3)


def test_the_typical_rank_is_the_middle_one_of_the_others(make_rank):
    alignment = job(make_rank, [[10, 50, 10], [10, 200, 10], [10, 90, 10], [10, 70, 10]])
    split = waiting(alignment)
    assert typical(alignment, split, but=1) == 3
    assert typical(job(make_rank, [[10, 50, 10]]), waiting(job(make_rank, [[10, 50, 10]])), but=0) is None


def test_ranks_with_other_collectives_are_no_model(make_rank):
    alignment = align(
        [
            make_rank(0, [(0, 10), (20, 30)], channels=["group a", "group b"]),
            make_rank(1, [(0, 10)], channels=["group a"]),
            make_rank(2, [(20, 30)], channels=["group b"]),
        ]
    )
    graphs = [as_measured(one) for one in alignment.ranks]
    assert as_fast_as(alignment, graphs, 0, 1) is None
