"""A script running under observation in its own process group, and the conversation with it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, cast

import msgspec

from skyline.capture.events import Ended, Failed, StackRow
from skyline.capture.memory_guard import MemoryGuard
from skyline.capture.output import ScriptOutput
from skyline.capture.request import OutputCallback
from skyline.errors import BudgetExceeded, Cancelled, CaptureImpossible, ScriptFailed

_ENTRY = Path(__file__).parent / "child" / "__main__.py"
_POLL_S = 0.05
_WHERE_TIMEOUT_S = 3.0
_GONE_GRACE_S = 2.0

Event = dict[str, Any]


class ScriptEnded(Exception):
    """The script ran to its end before the parent was done with it."""

    def __init__(self, ended: Ended) -> None:
        super().__init__("the script ended")
        self.ended = ended


class ChildProcess:
    """One run of the script. Use as a context manager: leaving it ends every process of the run."""

    def __init__(
        self,
        interpreter: str,
        working_directory: Path,
        *,
        device: str = "auto",
        timeout_s: float,
        memory_limit_bytes: int | None = None,
        output: OutputCallback | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._cancel = cancel or threading.Event()
        self._scratch = tempfile.TemporaryDirectory(prefix="skyline-", ignore_cleanup_errors=True)
        key = secrets.token_bytes(32)
        self._listener = Listener(None, authkey=key)
        environment = dict(
            os.environ, SKYLINE_CHANNEL_KEY=key.hex(), WANDB_MODE="disabled", KINETO_LOG_LEVEL="5"
        )
        if device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        try:
            self._process = subprocess.Popen(
                [interpreter, str(_ENTRY), str(self._listener.address)],
                cwd=working_directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._listener.close()
            self._scratch.cleanup()
            raise CaptureImpossible(
                f"{interpreter} could not be started: {error.strerror or error}",
                hint="Choose another interpreter with --interpreter.",
            ) from error
        assert self._process.stdout is not None
        self.output = ScriptOutput(self._process.stdout, output)
        self._guard = MemoryGuard(self._process.pid, memory_limit_bytes)
        self._connection: Connection | None = None
        try:
            self._connection = self._accept()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def scratch(self) -> Path:
        """A folder that lives as long as the run."""
        return Path(self._scratch.name)

    def send(self, do: str, **fields: object) -> None:
        """Give the child a command."""
        assert self._connection is not None
        try:
            self._connection.send_bytes(json.dumps({"do": do, **fields}).encode())
        except OSError:
            raise self._gone() from None

    def receive(self, *wanted: str) -> Event:
        """The next event of one of these kinds; others of the way are skipped.

        Raises ScriptEnded, ScriptFailed, CaptureImpossible (no torch), BudgetExceeded (no event within the
        time limit, or too much memory) and Cancelled.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            event = self._next_event(deadline)
            if event is None:
                raise self._timed_out()
            match event["event"]:
                case kind if kind in wanted:
                    return event
                case "failed":
                    raise self._failed(msgspec.convert(event, Failed))
                case "finished":
                    raise ScriptEnded(msgspec.convert(event, Ended))
                case "no_torch":
                    raise CaptureImpossible(
                        f"PyTorch is not installed in {event['executable']} (Python {event['python']})",
                        hint="Install it there (pip install torch), or name another with --interpreter.",
                    )
                case _:
                    deadline = time.monotonic() + self._timeout_s

    def close(self) -> None:
        """End the run and everything it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()
        self._guard.stop()
        if self._connection is not None:
            self._connection.close()
        self._listener.close()
        self._scratch.cleanup()

    def _accept(self) -> Connection:
        accepted: list[Connection] = []

        def accept() -> None:
            try:
                accepted.append(self._listener.accept())
            except OSError:
                pass

        thread = threading.Thread(target=accept, name="skyline-accept", daemon=True)
        thread.start()
        deadline = time.monotonic() + self._timeout_s
        while not accepted:
            thread.join(_POLL_S)
            self._check_alive()
            if time.monotonic() > deadline:
                raise CaptureImpossible(
                    "The interpreter did not start in time", hint="Is the machine overloaded?"
                )
        return accepted[0]

    def _next_event(self, deadline: float) -> Event | None:
        assert self._connection is not None
        while True:
            try:
                if self._connection.poll(_POLL_S):
                    return cast("Event", json.loads(self._connection.recv_bytes()))
            except (EOFError, OSError):
                raise self._gone() from None
            self._check_alive()
            if time.monotonic() > deadline:
                return None

    def _check_alive(self) -> None:
        if self._cancel.is_set():
            raise Cancelled("Profiling was cancelled")
        if self._guard.exceeded:
            raise BudgetExceeded(
                f"The script and its workers grew to {self._guard.seen_bytes / 1e9:.1f} GB of memory, over the limit "
                f"of {self._guard.limit_bytes / 1e9:.1f} GB",
                hint="Profile it with a smaller batch size, or on a machine with more memory.",
            )
        waiting = self._connection is not None and self._connection.poll(0)
        if self._process.poll() is not None and not waiting:
            raise self._gone()

    def _gone(self) -> ScriptFailed:
        """The child's process ended without a word: a crash in native code, or ``os._exit``."""
        try:
            status = self._process.wait(_GONE_GRACE_S)
        except subprocess.TimeoutExpired:
            status = 0
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
            message = f"The script was ended by signal {name}"
        else:
            message = f"The script left with status {status} before it could be measured"
        tail = self.output.tail()
        return ScriptFailed(message, traceback=tail, hint="" if tail else "It printed nothing.")

    def _failed(self, failed: Failed) -> ScriptFailed:
        # A script that leaves by itself (argparse does) has said why on its own.
        traceback = failed.traceback or self.output.tail()
        return ScriptFailed(failed.message, traceback=traceback, file=failed.file, line=failed.line)

    def _timed_out(self) -> BudgetExceeded:
        """Ask where the script is, and say so."""
        stack: list[StackRow] = []
        try:
            self.send("where")
            deadline = time.monotonic() + _WHERE_TIMEOUT_S
            while (event := self._next_event(deadline)) is not None:
                if event["event"] == "where":
                    stack = msgspec.convert(event["stack"], list[StackRow])
                    break
        except ScriptFailed:
            pass
        own = str(_ENTRY.parent)
        rows = [row for row in stack if not row.file.startswith((own, "<"))]
        message = f"No training step within {self._timeout_s:g} s"
        if not rows:
            return BudgetExceeded(
                f"{message}; the script does not answer, so it is inside native code",
                hint="Raise the limit with --timeout if it only needs longer.",
            )
        library = ("site-packages", "dist-packages", "/lib/python")
        at = next((row for row in reversed(rows) if not any(part in row.file for part in library)), rows[-1])
        return BudgetExceeded(
            f"{message}; the script was in {at.function}",
            file=at.file,
            line=at.line,
            hint="Raise the limit with --timeout if it only needs longer.",
        )
