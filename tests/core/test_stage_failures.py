from __future__ import annotations

from typing import NoReturn

import pytest

from skyline.errors import Cancelled, ScriptFailed
from skyline.stage_failures import StageFailures


def failing(error: Exception) -> NoReturn:
    raise error


class Over(Exception):
    pass


def test_a_stage_that_fails_costs_a_note_and_the_others_go_on() -> None:
    attempts = StageFailures()
    assert attempts.to("count", lambda: 1, 0) == 1
    assert attempts.to("divide", lambda: 1 // 0, 7) == 7
    assert attempts.to("run", lambda: failing(ScriptFailed("it raised ValueError.")), 8) == 8
    assert attempts.to("go on", lambda: failing(Over("the script ended")), 9, ended=Over) == 9
    divide, run, go_on = attempts.notes
    assert divide.startswith("Could not divide: ZeroDivisionError: ")
    assert "report" in divide
    assert run == "Could not run: it raised ValueError."
    assert go_on == "Could not go on: the script ended."


def test_a_cancellation_ends_the_work() -> None:
    attempts = StageFailures()
    with pytest.raises(Cancelled):
        attempts.to("measure", lambda: failing(Cancelled("stopped")), None)
    assert attempts.notes == ()
