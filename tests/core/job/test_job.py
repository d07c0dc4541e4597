"""Whole jobs: what was put into the traces is found in them."""

from __future__ import annotations

import numpy as np
import pytest

from skyline.job.job import job_of
from skyline.job.rank_reader import RankReader, ScaleNamed, Unread, read_whole
from skyline.job.times import simulated


def read(paths, reader=None):
    return job_of(map(reader or RankReader(), map(str, paths)))


def test_clocks_are_found_from_collectives(job_on_disk):
    ahead = [0.0, 5_000_000.0, -123.0]
    job = read(job_on_disk([1000.0, 1500.0, 1200.0], ahead_us=ahead))
    assert job.alignment.clock_us == pytest.approx(ahead, abs=0.01)
    assert job.alignment.residual_us == pytest.approx([0, 0, 0], abs=0.01)
    assert len(job.alignment.instances) == 4


def test_waiting_and_transfer_are_told_apart(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0, 1200.0]))
    assert job.split.transfer_us == pytest.approx([200.0] * 4)
    assert job.split.waiting_us[:, 0] == pytest.approx([500.0, 0.0, 300.0])
    for place, (compute, waited) in enumerate([(1000.0, 500.0), (1500.0, 0.0), (1200.0, 300.0)]):
        share = job.shares[place]
        assert share.compute_us == pytest.approx(4 * compute)
        assert share.waiting_us == pytest.approx(4 * waited, rel=0.02)
        assert share.transfer_us == pytest.approx(800.0)


def test_the_straggler_and_what_it_costs(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0, 1000.0]))
    assert job.straggler == 1
    assert (job.late[1].last, job.late[1].of) == (3, 3)
    assert job.late[1].behind_us == pytest.approx(3 * 500.0, rel=0.02)
    assert job.evened is not None
    even = read(job_on_disk([1000.0, 1000.0, 1000.0]))
    assert job.evened.times.step_us == pytest.approx(even.measured.step_us, rel=0.005)
    assert job.simulated.step_us - job.evened.times.step_us == pytest.approx(500.0, abs=2.0)


def test_groups_and_sizes_as_recent_traces_tell_them(job_on_disk):
    told = {
        "Collective name": "allreduce",
        "In msg nelems": 4096,
        "Out msg nelems": 4096,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    job = read(job_on_disk([1000.0, 1500.0], told=told))
    assert set(job.alignment.instances.channel) == {"group 0 [0, 1]"}
    assert set(job.alignment.instances.kind) == {"all_reduce"}
    assert job.alignment.ranks[0].exchanges.elements.tolist() == [4096] * 4
    assert job.replay_error < 0.005


def test_nobody_stands_out_among_equals(job_on_disk):
    job = read(job_on_disk([1000.0, 1000.0]))
    assert job.straggler is None
    assert job.evened is None
    assert (job.split.last == -1).all()


def test_a_job_is_simulated_as_it_was_measured(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0, 1200.0], begin_us=[0.0, 50.0, 400.0]))
    assert job.replay_error < 0.005
    for ours, theirs in zip(job.simulated.ends_us, job.measured.ends_us, strict=True):
        assert ours - job.measured.begin_us == pytest.approx(theirs - job.measured.begin_us, rel=0.005)


def test_the_reduced_job_is_the_whole_job(job_on_disk):
    paths = job_on_disk([1000.0, 1500.0, 1200.0])
    job = read(paths)
    whole = [read_whole(str(path)).graph for path in paths]
    assert len(whole[0].graph) > 2 * len(job.graphs[0].graph)
    times = simulated(job.alignment, job.split, whole)
    assert np.concatenate(times.ends_us) == pytest.approx(np.concatenate(job.simulated.ends_us))


def test_a_late_entry_is_held_against_nobody(job_on_disk):
    job = read(job_on_disk([1000.0, 1000.0, 1000.0], begin_us=[0.0, 0.0, 9000.0]))
    assert job.entry_us == pytest.approx(9000.0)
    assert job.straggler is None


def test_ranks_that_are_missing_are_named(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0, 1200.0], leave_out=[1]))
    assert job.members.missing == (1,)
    assert [one.rank for one in job.alignment.ranks] == [0, 2]
    # The missing rank came last: the recorded ones cannot know.
    assert job.split.transfer_us == pytest.approx([500.0] * 4)


def test_one_rank_alone(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0], leave_out=[1]))
    assert len(job.alignment.instances) == 0
    assert job.shares[0].transfer_us == pytest.approx(4 * 700.0)
    assert job.replay_error < 0.005


@pytest.mark.parametrize(("name", "factor", "change"), [("sgemm", 0.5, -750.0), ("nccl", 2.0, 200.0)])
def test_a_whatif_on_every_rank(job_on_disk, name, factor, change):
    paths = job_on_disk([1000.0, 1500.0, 1200.0])
    job = read(paths, RankReader(ScaleNamed(((name, factor),))))
    assert job.changed is not None
    assert job.changed.step_us - job.simulated.step_us == pytest.approx(change, abs=2.0)


def test_a_whatif_on_one_rank(job_on_disk):
    paths = job_on_disk([1000.0, 1500.0, 1200.0])
    faster = read(paths, RankReader(ScaleNamed((("sgemm", 0.5),)), (0,)))
    assert faster.changed is not None
    assert faster.changed.step_us == pytest.approx(faster.simulated.step_us)
    slow = read(paths, RankReader(ScaleNamed((("sgemm", 0.5),)), (1,)))
    assert slow.changed is not None
    assert slow.changed.step_us - slow.simulated.step_us == pytest.approx(-300.0, abs=2.0)


def test_a_broken_file_stops_no_other(job_on_disk, tmp_path):
    paths = job_on_disk([1000.0, 1500.0])
    broken = tmp_path / "rank2.json"
    broken.write_text("no trace", encoding="utf-8")
    assert isinstance(RankReader()(str(broken)), Unread)
    job = read([*paths, broken])
    assert len(job.alignment.ranks) == 2
    assert any("rank2.json" in note for note in job.members.notes)


def test_four_of_eight_ranks_of_a_recorded_job(shared_data):
    paths = sorted((shared_data / "traces").glob("param_dlrm_rank*of8.json.gz"))
    job = read(paths)
    assert job.members.missing == (4, 5, 6, 7)
    assert len(job.alignment.instances) == 8
    # One machine, one clock: what collectives say agrees with it to the microsecond.
    assert np.abs(job.alignment.clock_us).max() < 2.0
    assert job.alignment.residual_us.max() < 2.0
    for ours, theirs in zip(job.simulated.ends_us, job.measured.ends_us, strict=True):
        assert ours - job.measured.begin_us == pytest.approx(theirs - job.measured.begin_us, rel=0.005)
    whole = simulated(job.alignment, job.split, [read_whole(str(path)).graph for path in paths])
    assert np.concatenate(whole.ends_us) == pytest.approx(np.concatenate(job.simulated.ends_us))
