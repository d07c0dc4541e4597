"""The finding about a rank that all others wait for."""

from __future__ import annotations

import pytest

from skyline.findings.registry import find_in_job
from skyline.findings.uneven_ranks import JOB_RULE
from skyline.job import RankReader, job_of
from skyline.report.ranks import ranks_report


def read(paths):
    return job_of(map(RankReader(), map(str, paths)))


def test_what_the_even_job_would_gain(job_on_disk):
    job = read(job_on_disk([1000.0, 1500.0, 1000.0]))
    (found,) = find_in_job(job)
    assert found.code == "SKY502"
    # It computes half a millisecond longer than the others in each step.
    assert found.cost_ms == pytest.approx(0.5, abs=0.01)
    assert found.title.startswith("rank 1 keeps the others waiting: if it were as fast as rank ")
    assert "last at 3 of 3 collectives" in found.evidence[0].text
    assert ranks_report(job).findings == (found,)


def test_even_jobs_and_small_differences_are_left_alone(job_on_disk):
    assert JOB_RULE.check_job(read(job_on_disk([1000.0, 1000.0]))) is None
    assert JOB_RULE.check_job(read(job_on_disk([1000.0, 1040.0, 1000.0]))) is None
