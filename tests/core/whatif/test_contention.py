"""Cores that are wanted by more than they are."""

from __future__ import annotations

import pytest

from skyline.whatif.cost.contention import contended_us


def test_with_a_core_for_everybody_the_longer_counts() -> None:
    assert contended_us(300, 1000, workers=1, cores=4, threads=3, parallel_share=1.0) == 1000
    assert contended_us(3000, 1000, workers=2, cores=4, threads=2, parallel_share=1.0) == 1500


def test_two_threads_beside_a_worker_on_two_cores_get_a_third() -> None:
    # The worker has two thirds of a core, so it is busy for 3/2 of its work; computing gets on by a third of that.
    busy = 200 * 3 / 2
    expected = busy + (1000 - busy / 3)
    assert contended_us(200, 1000, workers=1, cores=2, threads=2, parallel_share=1.0) == pytest.approx(
        expected
    )


def test_work_that_is_not_split_shares_fairly() -> None:
    # One thread and one worker have a core each, however many threads split operators would use.
    assert contended_us(200, 1000, workers=1, cores=2, threads=2, parallel_share=0.0) == pytest.approx(1000)


def test_loading_may_be_what_counts() -> None:
    assert contended_us(5000, 100, workers=1, cores=2, threads=2, parallel_share=1.0) == pytest.approx(7500)
