"""Cores that are wanted by more than they are."""

from __future__ import annotations

import pytest

from skyline.graph.threads import ThreadUse
from skyline.whatif.cost.contention import Computing, contended_us, pace, uncontended

SPLIT, WATCHED, ALONE = ThreadUse(1.0, 0.0, 0.0), ThreadUse(0.0, 1.0, 0.0), ThreadUse(0.0, 0.0, 1.0)


def took_us(load_us, compute_us, use, *, threads=2, workers=1, cores=2, contention_penalty=1.0):
    computing = Computing(compute_us, use, threads)
    return contended_us(
        load_us, computing, workers=workers, cores=cores, contention_penalty=contention_penalty
    )


def test_with_a_core_for_everybody_the_longer_counts() -> None:
    assert took_us(300, 1000, SPLIT, threads=3, cores=4) == 1000
    assert took_us(3000, 1000, SPLIT, workers=2, cores=4) == 1500


def test_without_workers_both_come_one_after_the_other() -> None:
    assert took_us(300, 1000, SPLIT, workers=0) == 1300


def test_two_threads_beside_a_worker_on_two_cores_get_a_third() -> None:
    # The worker has two thirds of a core, so it is busy for 3/2 of its work; computing gets on by a third of that.
    busy = 200 * 3 / 2
    assert took_us(200, 1000, SPLIT) == pytest.approx(busy + (1000 - busy / 3))


def test_one_thread_shares_with_those_that_look_out_for_work() -> None:
    busy = 200 * 3 / 2
    assert took_us(200, 1000, WATCHED) == pytest.approx(busy + (1000 - busy * 2 / 3))
    # Long after the last split operator they sleep: a core each for the script and the worker.
    assert took_us(200, 1000, ALONE) == pytest.approx(1000)


def test_a_worker_that_works_little_takes_more_than_its_work_from_split_operators() -> None:
    lost = {
        contention_penalty: took_us(20, 1000, SPLIT, contention_penalty=contention_penalty) - 1000
        for contention_penalty in (1.0, 1.5)
    }
    assert lost[1.0] == pytest.approx(20)
    assert lost[1.5] == pytest.approx(30, rel=0.01)
    # The more of the time it works, the less so: there are 2000 µs of work in the time of the stretched computing.
    assert took_us(1000, 1000, SPLIT, contention_penalty=1.5) == pytest.approx(2000 + 0.5 * 0.5 * 1000)
    assert took_us(2000, 1000, SPLIT, contention_penalty=1.5) == pytest.approx(3000)
    # One thread by itself looks out for nobody.
    assert took_us(20, 1000, ALONE, threads=1, cores=1, contention_penalty=1.5) == took_us(
        20, 1000, ALONE, threads=1, cores=1
    )


def test_workers_have_their_cores_to_themselves_while_the_script_waits() -> None:
    # 100 µs of computing take 300, in which the worker does 200; the other 4800 go at full speed.
    assert took_us(5000, 100, SPLIT) == pytest.approx(300 + 4800)
    # Four workers on two cores are no faster than two.
    assert took_us(8000, 0, ALONE, workers=4) == pytest.approx(4000)


def test_more_load_never_takes_less() -> None:
    for use in (SPLIT, WATCHED, ALONE, ThreadUse(0.5, 0.3, 0.2)):
        for workers, contention_penalty in ((1, 1.0), (1, 9.0), (2, 1.5), (2, 0.1), (4, 1.0)):
            loads = range(0, 6000, 250)
            times = [
                took_us(load, 1000, use, workers=workers, contention_penalty=contention_penalty)
                for load in loads
            ]
            assert times == sorted(times)


def test_the_pace_of_no_workers_and_of_no_work() -> None:
    assert pace(Computing(10, SPLIT, 2), workers=0, cores=2).slowdown == 1
    assert pace(Computing(0, ThreadUse(0, 0, 0), 2), workers=1, cores=2).slowdown == 1


@pytest.mark.parametrize("load_us", [0.0, 200.0, 5000.0])
def test_computing_is_found_again_from_what_it_took_beside_workers(load_us) -> None:
    alone = Computing(1000, ThreadUse(0.6, 0.2, 0.2), 2)
    stretched = alone.total_us * pace(alone, workers=2, cores=2).slowdown
    beside = min(stretched, contended_us(load_us, alone, workers=2, cores=2))
    found = uncontended(beside, alone.use, 2, load_us=load_us, workers=2, cores=2)
    assert found.total_us == pytest.approx(alone.total_us, rel=1e-3)
