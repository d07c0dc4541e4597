"""The program ``skyline`` with brief measurements, for tests of what is shown and written and not of the figures.

``python tests/brief_measurements.py lsp`` is ``skyline lsp``, and ``... tui train.py`` is the terminal UI over such a
server. Each measurement ends as soon as it has the least that a profile needs; all stages but the trials of other
threads and number formats are there.
"""

from __future__ import annotations

import sys
from functools import partial

from skyline.cli.main import main

SERVER = (sys.executable, __file__, "lsp")
"""Program and arguments of the language server."""
SETTLE_S = 0.1
CURVE_SHARE = 0.15
ROUNDS = 3
TURN_S = 0.1


def shorten_server() -> None:
    """Shorten the measurements that a language server in this process starts."""
    import skyline_lsp.features.verify
    import skyline_lsp.profiler
    from skyline.capture import batch_trials, trial_budget
    from skyline.capture.request import CaptureRequest
    from skyline.verification.measure import Effort

    brief = partial(CaptureRequest, settle_s=SETTLE_S, trials=False)
    skyline_lsp.profiler.CaptureRequest = brief  # type: ignore[misc]
    skyline_lsp.features.verify.Effort = partial(Effort, turn_s=TURN_S)  # type: ignore[misc]
    batch_trials._MOST_ROUNDS = ROUNDS
    trial_budget._CURVE_SHARE = CURVE_SHARE


def shorten_terminal() -> None:
    """Have the terminal UI in this process start a server with brief measurements."""
    import skyline_tui.client

    skyline_tui.client.server_command = lambda: SERVER


if __name__ == "__main__":
    (shorten_terminal if "tui" in sys.argv[1:2] else shorten_server)()
    sys.exit(main())
