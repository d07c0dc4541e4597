"""Actions on an alert that the person requested: a command, a webhook, a profile, a pause, a stop."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from skyline.lazy_dataclass import dataclass
from skyline.watch.rule import Alert

_WEBHOOK_TIMEOUT_S = 10.0
_PROFILED_ITERATIONS = 3


@dataclass(frozen=True, slots=True)
class Actions:
    """The command ``notify`` gets an alert as JSON on its standard input, the URL ``webhook`` gets it by POST.

    ``stop_on``, ``pause_on`` and ``profile_on`` are names of rules. ``beside`` is the path of the history
    without its suffix; it begins the file names of a stop and of a profile.
    """

    notify: str = ""
    webhook: str = ""
    stop_on: frozenset[str] = frozenset()
    profile_on: frozenset[str] = frozenset()
    pause_on: frozenset[str] = frozenset()
    beside: Path = Path("watch")
    _under_way: list[threading.Thread] = field(default_factory=list[threading.Thread], repr=False)

    def tell(self, name: str, alert: Alert, iteration: int, rank: int, failed: Callable[[str], None]) -> None:
        """Starts the command and the request without waiting; ``failed`` gets the reason if one fails."""
        place = alert.place
        content = json.dumps(
            {
                "rule": name,
                "title": alert.title,
                "evidence": alert.evidence,
                "iteration": iteration,
                "rank": rank,
                "file": place.file if place is not None else "",
                "line": place.line if place is not None else 0,
            }
        ).encode()
        for what, act in ((self.notify, _run), (self.webhook, _post)):
            if what:
                thread = threading.Thread(target=act, args=(what, content, failed), daemon=True)
                thread.start()
                self._under_way.append(thread)

    def finish(self, seconds: float = _WEBHOOK_TIMEOUT_S) -> bool:
        """Waits until each command and request has ended; False if one has not within ``seconds``."""
        ends = time.monotonic() + seconds
        for thread in self._under_way:
            thread.join(max(0.0, ends - time.monotonic()))
        return not any(thread.is_alive() for thread in self._under_way)

    def commands(self, name: str, iteration: int, rank: int) -> list[dict[str, object]]:
        """The commands to the run for an alert."""
        asked: list[dict[str, object]] = []
        suffix = f"rank{rank}-{iteration}" if rank else str(iteration)
        if name in self.profile_on:
            path = f"{self.beside}-{name}-{suffix}.trace.json"
            asked.append(profile_command(path))
        if name in self.stop_on:
            asked.append({"do": "stop", "checkpoint": f"{self.beside}-stopped-{suffix}.pt"})
        return asked


def profile_command(path: str) -> dict[str, object]:
    """The command to a process of the run to write a trace of the next iterations to this path."""
    return {"do": "profile", "iterations": _PROFILED_ITERATIONS, "path": path}


def _run(command: str, content: bytes, failed: Callable[[str], None]) -> None:
    try:
        ran = subprocess.run(
            shlex.split(command),
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    except (OSError, ValueError) as error:
        failed(f"{command}: {error}")
        return
    if ran.returncode:
        failed(
            f"{command} ended with status {ran.returncode}: {ran.stderr.decode('utf-8', 'replace').strip()[-200:]}"
        )


def _post(url: str, content: bytes, failed: Callable[[str], None]) -> None:
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_WEBHOOK_TIMEOUT_S):
            pass
    except (OSError, ValueError) as error:
        failed(f"{url}: {error}")
