from __future__ import annotations

import numpy as np

from skyline.graph.rules.hand_off import bursts_of, hand_offs, independent
from skyline.graph.rules.pieces import Pieces, Role

MAIN, AUTOGRAD = 0, 1


def pieces(main, autograd):
    spans = [(MAIN, *span) for span in main] + [(AUTOGRAD, *span) for span in autograd]
    return Pieces(
        np.array([thread for thread, _, _ in spans], np.int32),
        np.array([start for _, start, _ in spans], np.float64),
        np.array([end for _, _, end in spans], np.float64),
        np.arange(len(spans), dtype=np.int32),
        np.full(len(spans), -1, np.int32),
        np.full(len(spans), Role.OPERATOR, np.uint8),
    )


def found(given):
    return [
        (start, end)
        for start, end in zip(
            *(getattr(bursts_of(given, MAIN, (AUTOGRAD,)), n) for n in ("start_us", "end_us")), strict=True
        )
    ]


def test_a_pause_without_work_of_the_script_ends_no_burst() -> None:
    given = pieces([(0, 10), (100, 110)], [(20, 30), (60, 90), (130, 140)])
    assert found(given) == [(20, 90), (130, 140)]


def test_work_of_the_script_while_autograd_is_busy_starts_nothing() -> None:
    given = pieces([(0, 10), (40, 50)], [(20, 45), (46, 90)])
    assert found(given) == [(20, 90)]


def test_both_threads_wait_for_each_other() -> None:
    given = pieces([(0, 10), (100, 110)], [(20, 30), (60, 90)])
    bursts = bursts_of(given, MAIN, (AUTOGRAD,))
    placed, places = given.marked(
        np.zeros(2, np.int32), np.array([20.0, 90.0]), np.zeros(2, np.int32), Role.MARK
    )
    handed = hand_offs(placed, bursts, places[:1], places[1:])
    assert placed.start_us.tolist() == [0, 20, 90, 100, 20, 60]
    assert [(one.source, one.target) for one in handed.dependencies] == [(1, 4), (5, 2)]
    assert handed.idle_after.tolist() == [1]
    assert len(independent(placed, (MAIN, AUTOGRAD), handed.begun, 0)) == 0


def test_a_thread_that_nothing_starts_begins_when_it_did() -> None:
    given = pieces([(5, 10)], [(20, 30)])
    (free,) = independent(given, (MAIN, AUTOGRAD), np.empty(0, np.int64), 0)
    assert (free.source, free.target, free.lag_us, free.from_start) == (0, 1, 15, True)
