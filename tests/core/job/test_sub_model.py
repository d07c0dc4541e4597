"""A smaller sub-model for the slow rank: its width by hand, and the job with it."""

from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.job.job import job_of
from skyline.job.rank_reader import RankReader
from skyline.job.rank_work import WidthTime
from skyline.job.sub_model import Narrowed, kept_width, sub_model
from skyline.job.workers import Here
from skyline.report.pages.ranks import ranks_page
from skyline.report.ranks import ranks_report
from skyline.trace.record import Phase


def _sub_model(paths):
    job = job_of(map(RankReader(), map(str, paths)))
    return job, sub_model(job, Here())


@pytest.mark.parametrize(
    ("squared", "linear", "excess", "width"),
    [
        (100.0, 0.0, 75.0, 0.5),
        (0.0, 100.0, 25.0, 0.75),
        # w^2 + 2 w = 1.25
        (100.0, 200.0, 175.0, 0.5),
    ],
)
def test_the_width_by_hand(squared, linear, excess, width):
    found = kept_width(WidthTime(squared, linear), excess)
    assert found.value == pytest.approx(width)
    assert found.low == pytest.approx(1 - excess / (squared + linear))
    assert found.high == pytest.approx(found.low**0.5)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("kernels", "excess"), [(100.0, 100.0), (100.0, 0.0), (0.0, 5.0)])
def test_no_width_shortens_the_kernels_by_more_than_they_take(kernels, excess):
    assert kept_width(WidthTime(kernels, 0.0), excess) is None


def test_products_fall_with_the_square_and_other_kernels_with_the_width():
    def task(kind, work=WorkClass.OTHER, phase=Phase.FORWARD):
        return Task("x", kind, work, "stream 7", phase, 0)

    tasks = [
        task(TaskKind.KERNEL, WorkClass.MATMUL),
        task(TaskKind.KERNEL, WorkClass.CONVOLUTION),
        task(TaskKind.KERNEL, WorkClass.ATTENTION),
        task(TaskKind.KERNEL),
        task(TaskKind.KERNEL, phase=Phase.COMMUNICATION),
        task(TaskKind.COPY),
        task(TaskKind.CPU),
    ]
    graph = Narrowed(0.5)(Graph(Structure(tasks), np.full(len(tasks), 100.0)))
    assert graph.durations.tolist() == [25, 25, 50, 50, 100, 100, 100]


def test_the_step_is_even_with_the_sub_model(job_on_disk):
    job, smaller = _sub_model(job_on_disk([1000.0, 1500.0, 1000.0]))
    assert smaller is not None
    assert smaller.straggler == 1
    assert smaller.kernels_us == pytest.approx(1500.0)
    assert smaller.width.value == pytest.approx((1000 / 1500) ** 0.5, rel=0.01)
    assert smaller.times.step_us == pytest.approx(job.evened.times.step_us, rel=0.005)
    assert smaller.times.step_us < job.simulated.step_us - 450
    told = ranks_report(job, smaller=smaller).straggler.sub_model
    assert told.evens
    assert told.gain_ms == pytest.approx(0.5, abs=0.01)


def test_a_rank_that_is_late_for_its_host_is_no_faster_with_a_sub_model(job_on_disk):
    job, smaller = _sub_model(job_on_disk([1000.0, 1000.0, 1000.0], busy_us=[0.0, 1600.0, 0.0]))
    assert job.straggler == 1
    assert smaller is not None
    assert smaller.times.step_us == pytest.approx(job.simulated.step_us, rel=0.01)
    report = ranks_report(job, smaller=smaller)
    assert not report.straggler.sub_model.evens
    assert "also late for other reasons" in str(ranks_page(report))


def test_even_jobs_and_hopeless_ranks_get_none(job_on_disk):
    assert _sub_model(job_on_disk([1000.0, 1000.0]))[1] is None
    job, smaller = _sub_model(job_on_disk([100.0, 100.0, 100.0], busy_us=[0.0, 1600.0, 0.0]))
    assert job.straggler == 1
    assert smaller is None
    assert ranks_report(job, smaller=smaller).straggler.sub_model is None
