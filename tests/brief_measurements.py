"""The program ``skyline`` with brief measurements, for tests of what is shown and written and not of the figures.

``python tests/brief_measurements.py lsp`` is ``skyline lsp``, ``... profile train.py`` is ``skyline profile train.py``,
and ``... tui train.py`` is the terminal UI over such a server. Each measurement ends as soon as it has the least that a
profile needs; in a server all stages but the trials of other threads and number formats are there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from skyline.cli.main import main

SERVER = (sys.executable, __file__, "lsp")
"""Program and arguments of the language server."""
SETTLE_S = 0.1
ROUNDS = 3
TURN_S = 0.05


def shorten_server() -> None:
    """Shorten the measurements that a language server in this process starts."""
    import skyline_lsp.features.verify
    import skyline_lsp.profiler
    from skyline.capture import batch_trials
    from skyline.capture.request import CaptureRequest
    from skyline.tune import search
    from skyline.verification.measure import Effort

    brief = partial(CaptureRequest, settle_s=SETTLE_S, trials=False)
    skyline_lsp.profiler.CaptureRequest = brief  # type: ignore[misc]
    skyline_lsp.features.verify.Effort = partial(Effort, turn_s=TURN_S)  # type: ignore[misc]
    search._TURN_S = TURN_S
    search._FINAL = replace(search._FINAL, turn_s=TURN_S)
    batch_trials._MOST_ROUNDS = ROUNDS


def shorten_terminal() -> None:
    """Have the terminal UI in this process start a server with brief measurements."""
    import skyline_tui.client

    skyline_tui.client.server_command = lambda: SERVER


def shorten_profiles() -> None:
    """End the timing of iterations early in profiles that a command in this process makes."""
    from skyline.capture import session

    measure = session.capture
    session.capture = lambda request, **options: measure(replace(request, settle_s=SETTLE_S), **options)


def shorten_rounds() -> None:
    """Shorten the turns in which a command in this process compares two versions."""
    # The module of limits makes efforts too, from that of the command, and keeps the class as it is.
    from skyline.verification import budget_check, measure  # noqa: F401

    measure.Effort = partial(measure.Effort, turn_s=TURN_S)  # type: ignore[misc]


SHORTENED: dict[str, Callable[[], None]] = {
    "tui": shorten_terminal,
    "lsp": shorten_server,
    "profile": shorten_profiles,
    "serve": shorten_profiles,
    "check": shorten_rounds,
}

if __name__ == "__main__":
    if shorten := SHORTENED.get("".join(sys.argv[1:2])):
        shorten()
    sys.exit(main())
