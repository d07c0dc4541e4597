"""The same code in this process, in a pool and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from skyline.errors import UsageError
from skyline.job.job import job_of
from skyline.job.rank_reader import RankReader, Unread
from skyline.job.workers import Here, fitting_processes, on_cluster, on_this_machine


def assert_same_job(first, second):
    assert [one.work.rank for one in first.members.traces] == [one.work.rank for one in second.members.traces]
    assert np.array_equal(first.alignment.shift_us, second.alignment.shift_us)
    assert first.shares == second.shares
    assert np.array_equal(np.concatenate(first.simulated.ends_us), np.concatenate(second.simulated.ends_us))


def test_two_processes(job_on_disk):
    paths = [str(path) for path in job_on_disk([1000.0, 1500.0, 1200.0])]
    with on_this_machine(2) as workers:
        there = job_of(workers.map(RankReader(), paths))
    assert_same_job(there, job_of(Here().map(RankReader(), paths)))


def test_a_process_that_is_ended_from_outside():
    import os

    with on_this_machine(2) as workers, pytest.raises(UsageError, match="ended from outside"):
        list(workers.map(os._exit, [1, 1]))


def test_few_small_traces_are_read_here(job_on_disk):
    assert fitting_processes(job_on_disk([1000.0, 1500.0])) == 1
    assert fitting_processes([]) == 1


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A scheduler and two worker processes of this machine."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        silence_logs=50,
    ) as found:
        yield found


def test_two_workers_of_a_cluster(cluster, job_on_disk, tmp_path):
    paths = [str(path) for path in job_on_disk([1000.0, 1500.0, 1200.0])]
    with on_cluster(cluster.scheduler_address) as workers:
        there = job_of(workers.map(RankReader(), paths))
        assert_same_job(there, job_of(Here().map(RankReader(), paths)))
        missing = list(workers.map(RankReader(), [str(tmp_path / "none.json")]))
    assert isinstance(missing[0], Unread)


def test_a_cluster_that_does_not_answer(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("skyline.job.workers._ANSWERS_WITHIN_S", 0.5)
    with pytest.raises(UsageError, match="no Dask scheduler answers"), on_cluster("tcp://127.0.0.1:9"):
        pass
