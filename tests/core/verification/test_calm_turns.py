"""Turns of a pair of processes that count, by the load of other programs."""

from __future__ import annotations

from skyline.capture.turns import Round, Turn
from skyline.verification.calm_turns import CalmTurns

CALM, BUSY = 0.05, 0.8


def rounds(*loads: tuple[float, float], slower: float = 1.1) -> list[Round]:
    """Rounds of a base of 100 ms; a load makes a turn twice as long. Each base turn but the last opens one round."""
    base = [Turn(200.0 if load > CALM else 100.0, (), load) for load, _ in loads]
    base.append(Turn(100.0, (), CALM))
    changed = [Turn(slower * (200.0 if load > CALM else 100.0), (), load) for _, load in loads]
    return [Round(base[place], base[place + 1], (turn,)) for place, turn in enumerate(changed)]


def test_busy_turns_do_not_count() -> None:
    found = CalmTurns.of(rounds((BUSY, CALM), (CALM, BUSY), (BUSY, CALM), (CALM, CALM)), 2, 2)
    assert (found.base_ms, round(found.changed_ms), found.calm) == (100.0, 110, 3)


def test_the_side_with_fewer_calm_turns_decides_whether_they_are_enough() -> None:
    assert CalmTurns.of(rounds((CALM, BUSY), (CALM, BUSY), (CALM, CALM)), 2, 2).calm == 1


def test_on_a_busy_machine_the_least_loaded_turns_count() -> None:
    found = CalmTurns.of(rounds((BUSY, 0.5), (BUSY, 0.9), (BUSY, 0.7)), 2, 2)
    assert found.calm == 0
    assert round(found.changed_ms) == 220


def test_a_turn_with_slow_iterations_of_its_own_counts() -> None:
    base = Turn(100.0)
    found = CalmTurns.of([Round(base, base, (Turn(300.0),)), Round(base, base, (Turn(100.0),))], 2, 1)
    assert found.changed_ms == 200.0
