"""Which traces make a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.job.job import members
from skyline.job.rank_reader import RankTrace, Unread, as_measured, trace_files

SPANS = [(10.0, 100.0), (150.0, 260.0)]


@pytest.fixture
def trace(make_rank):
    def make(rank, **given):
        work = replace(make_rank(max(rank, 0), SPANS), rank=rank, **given)
        return RankTrace(work, as_measured(work))

    return make


def test_ranks_in_order_and_those_that_are_missing(trace):
    found = members([trace(3, world_size=5), trace(0, world_size=5)])
    assert [one.work.rank for one in found.traces] == [0, 3]
    assert (found.world_size, found.missing) == (5, (1, 2, 4))


def test_ranks_that_are_not_told_go_by_the_files_names(trace):
    found = members([trace(-1, file="b.json"), trace(0, file="c.json"), trace(-1, file="a.json")])
    assert [(one.work.rank, one.work.file) for one in found.traces] == [
        (0, "c.json"),
        (1, "a.json"),
        (2, "b.json"),
    ]
    assert "2 traces do not say their rank" in found.notes[0]


def test_of_several_windows_the_latest(trace):
    found = members([trace(0, base_ns=5, file="late.json"), trace(0, base_ns=4, file="early.json")])
    assert [one.work.file for one in found.traces] == ["late.json"]
    assert "rank 0 has 2 traces" in found.notes[0]


def test_jobs_of_different_sizes_are_refused(trace):
    with pytest.raises(UsageError, match="different jobs: of 2, 4 and 8 ranks"):
        members([trace(0, world_size=4), trace(1, world_size=8), trace(1, world_size=2)])


def test_nothing_that_can_be_read(trace):
    with pytest.raises(UsageError, match="is no trace"):
        members([Unread("x.json", "x.json is no trace")])


def test_files_of_a_folder(tmp_path):
    inner = tmp_path / "run" / "node0"
    inner.mkdir(parents=True)
    for name in (
        "rank0.pt.trace.json",
        "rank1.json.gz",
        "train.profile.json.gz",
        "notes.txt",
        "rank0_et.json",
    ):
        (inner / name).write_text("{}", encoding="utf-8")
    expected = [inner / "rank0.pt.trace.json", inner / "rank1.json.gz"]
    assert trace_files([str(inner)]) == tuple(expected)
    assert trace_files([str(tmp_path)]) == tuple(expected)
    assert trace_files([str(inner / "rank1.json.gz"), str(inner)]) == tuple(reversed(expected))
    with pytest.raises(UsageError, match="does not exist"):
        trace_files([str(tmp_path / "other")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no trace"):
        trace_files([str(tmp_path / "empty")])
