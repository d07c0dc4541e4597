"""The main loop of a watcher in a terminal: alerts, the state of the run, attached terminals, and the end."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.status_line import StatusLine
from skyline.cli.streams import say

if TYPE_CHECKING:
    from skyline.watch.clients import Clients, Message
    from skyline.watch.diary import Diary
    from skyline.watch.heard_run import HeardRun
    from skyline.watch.live_runs import LiveRun
    from skyline.watch.requests import Requests
    from skyline.watch.rule import WatchRule
    from skyline.watch.watcher import Watcher


class Watching:
    """Watches a run until it ends. Errors in this process do not affect the run."""

    def __init__(
        self,
        run: HeardRun,
        rules: dict[str, WatchRule],
        diary: Diary,
        options: argparse.Namespace,
        beside: Path,
        *,
        quiet: bool,
    ) -> None:
        from skyline.watch.actions import Actions
        from skyline.watch.requests import Requests
        from skyline.watch.run_load import RunLoadMeter, family_s
        from skyline.watch.watcher import Watcher

        self.run = run
        self.status = StatusLine(wanted=not quiet)
        self.clients: Clients | None = None
        actions = Actions(
            options.notify,
            options.webhook,
            frozenset(options.stop_on),
            frozenset(options.profile_on),
            frozenset(options.pause_on),
            beside,
        )
        meter = RunLoadMeter(lambda: family_s(run.root()))
        self.watcher: Watcher = Watcher(rules, diary, actions, self._say, run.command, run.pause, meter.read)
        self.requests: Requests = Requests(self.watcher, frozenset(options.allow), run.go_on)

    def open_to_clients(self, live: LiveRun) -> None:
        """Let other terminals attach. If the socket cannot be opened, the run is still watched."""
        from skyline.watch.clients import Clients

        try:
            self.clients = Clients(self.run, lambda: self._facts(live), self.requests.answer)
        except OSError as error:
            self._say(f"skyline watch: no terminal can attach: {error.strerror or error}")

    def to_the_end(self, otherwise: Callable[[], int | None]) -> int | None:
        """Watch until the run has ended. Returns its exit code. If watching fails, ``otherwise`` waits for the run.

        Raises KeyboardInterrupt on Ctrl+C, unless Ctrl+C goes to the run.
        """
        try:
            code = self.run.listen(self.watcher.hear, self._tick)
            if self.clients is not None:
                self.clients.end(code)
            # Wait, so that alerts of the last iterations also reach their command and URL.
            if not self.watcher.actions.finish():
                self._say("skyline watch: a --notify command or a --webhook request has not ended yet")
        except Exception as error:
            # The run continues after any error in the watcher.
            _try_to_say(f"skyline watch: watching ended: {type(error).__name__}: {error}")
            code = otherwise()
        finally:
            self.status.close()
            if self.clients is not None:
                with contextlib.suppress(OSError):
                    self.clients.close()
            self.run.close()
        return code

    def _tick(self) -> None:
        self.watcher.read_host()
        state = self.watcher.status()
        self.status.draw(state)
        if self.clients is not None:
            self.clients.draw(state)

    def _say(self, message: str) -> None:
        self.status.say(message)
        if self.clients is not None:
            self.clients.say(message)

    def _facts(self, live: LiveRun) -> Message:
        return {
            "name": live.name,
            "command": list(live.command),
            "started": live.started,
            "process": live.process,
            "history": live.history,
            "rules": len(self.watcher.rules),
            "alerts": self.watcher.alerts,
            "allowed": sorted(self.requests.allowed),
            "status": self.watcher.status(),
        }


def _try_to_say(message: str) -> None:
    with contextlib.suppress(OSError):
        say(message)
