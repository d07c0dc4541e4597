"""A script that runs under observation in its own process group, and the messages to and from it."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from skyline.capture.downloads import Downloads
from skyline.capture.ended_early import complaint, next_step, usage_text
from skyline.capture.event_bus import Event, EventBus
from skyline.capture.events import Ended, Failed
from skyline.capture.guard import Guard, RunLimits
from skyline.capture.output import ScriptOutput, empty_terminal
from skyline.capture.process import ENTRY, HAS_GROUPS, HAS_SUBREAPER, Start, Starter, start_fresh
from skyline.capture.process_family import RUN_TAG, ParentDeathReaper, ProcessFamily
from skyline.capture.redactor import Redactor
from skyline.capture.request import OutputCallback
from skyline.capture.scratch import make_scratch
from skyline.capture.side_effects import last_words, read_protection, read_side_effects
from skyline.capture.warm_parent import ForkedProcess
from skyline.errors import ArgumentsRefused, BudgetExceeded, Cancelled, CaptureImpossible, ScriptFailed
from skyline.trace.facts import Protection, SideEffect
from skyline.trace.record import CodeLine

_POLL_S = 0.05
_WHERE_TIMEOUT_S = 3.0
_GONE_GRACE_S = 2.0
_END_TIMEOUT_S = 10.0
_USAGE_STATUS = 2
_DEFAULT_LIMITS = RunLimits()
_STARTED_ANEW = "The forked process ended before the script began: a fresh interpreter ran it instead."

logger = logging.getLogger(__name__)


class ScriptEnded(Exception):
    """The script ran to its end before the parent was done with it."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(f"the script ended after {ended.boundaries} iterations")
        self.ended = ended


class VariablesRead(Exception):
    """The script sets variables that modules read at import, and they are imported: it needs a ``plain`` process."""


class ChildProcess:
    """One run of the script. Use as a context manager: leaving it ends every process of the run."""

    def __init__(
        self,
        interpreter: str,
        working_directory: Path,
        *,
        device: str = "auto",
        timeout_s: float,
        limits: RunLimits = _DEFAULT_LIMITS,
        side_effects: Literal["redirect", "allow"] = "redirect",
        arguments: tuple[str, ...] = (),
        output: OutputCallback | None = None,
        cancel: threading.Event | None = None,
        starter: Starter = start_fresh,
        variables: Mapping[str, str] | None = None,
        plain: bool = False,
    ) -> None:
        if not HAS_GROUPS:
            raise CaptureImpossible(
                "This system lacks process groups and Unix sockets, and Skyline needs both to control a run.",
                hint="On Windows, run Skyline in WSL. Saved profiles can be read here.",
            )
        self._timeout_s = timeout_s
        self._cancel = cancel or threading.Event()
        self._scratch = make_scratch()
        self._death_reaper = ParentDeathReaper(self.scratch, subreaper=HAS_SUBREAPER)
        self._downloads = Downloads(self.scratch, working_directory)
        self._redactor = Redactor.of({**os.environ, **(variables or {})}, arguments)
        key = secrets.token_bytes(32)
        try:
            self._event_bus = EventBus(key, self.scratch)
        except OSError as error:
            self._death_reaper.close()
            self._scratch.cleanup()
            raise CaptureImpossible(
                f"No socket can be made in the temporary folder: {error.strerror or error}",
                hint="Set TMPDIR to a folder with a short path.",
            ) from error
        self._terminal = empty_terminal()
        environment = dict(os.environ, KINETO_LOG_LEVEL="5")
        environment[RUN_TAG] = secrets.token_hex(8)
        if side_effects == "redirect":
            environment["WANDB_MODE"] = "disabled"
        environment.update(variables or {})
        if device == "cpu":
            # Last: variables of the user's settings may name GPUs. AMD's runtime reads either name.
            environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = ""
        start = Start(
            interpreter,
            working_directory,
            environment,
            self._event_bus.address,
            key,
            self._cancel,
            self._terminal.descriptor if self._terminal is not None else None,
            plain,
        )
        self._interpreter = interpreter
        self._limits = limits
        self._called = False
        self.notes: tuple[str, ...] = ()
        """Notes on how the process was started."""
        try:
            self._begin(starter, start, output)
        except BaseException:
            self._let_go()
            raise
        try:
            try:
                self._await_call()
            except CaptureImpossible as failed:
                if not isinstance(self._process, ForkedProcess) or self._process.poll() is None:
                    raise
                logger.warning("a forked process failed, a fresh one takes its place: %s", failed)
                self._end_process()
                self._death_reaper.close()
                self._death_reaper = ParentDeathReaper(self.scratch, subreaper=HAS_SUBREAPER)
                self.notes = (_STARTED_ANEW,)
                self._begin(start_fresh, start, output)
                self._await_call()
        except BaseException:
            self.close()
            raise

    def _begin(self, starter: Starter, start: Start, output: OutputCallback | None) -> None:
        try:
            self._process = starter(start)
        except OSError as error:
            raise CaptureImpossible(
                f"{start.interpreter} could not be started: {error.strerror or error}",
                hint="Choose another interpreter with --interpreter.",
            ) from error
        assert self._process.stdout is not None
        self._family = ProcessFamily(self._process.pid, start.environment[RUN_TAG], subreaper=HAS_SUBREAPER)
        self._death_reaper.watch(self._process.pid)

        def pass_on(text: str) -> None:
            # Before its call, no output of the process is from the script.
            if output is not None and self._called:
                output(text)

        self.output = ScriptOutput(self._process.stdout, None if output is None else pass_on)
        self._guard = Guard(self._family, self.scratch, self._limits)

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """ID of the script's process, and of its group."""
        return self._family.script_pid()

    @property
    def scratch(self) -> Path:
        """A folder that lives as long as the run."""
        return Path(self._scratch.name)

    @property
    def redactor(self) -> Redactor:
        """The secrets of this run."""
        return self._redactor

    def side_effects(self) -> tuple[SideEffect, ...]:
        """The script's effects outside its process so far, with their outcomes."""
        self.keep_downloads()
        return read_side_effects(self.scratch, self._redactor, self._downloads.kept)

    def protection(self) -> Protection | None:
        """The protection of the user's files from the run."""
        return read_protection(self.scratch)

    def keep_downloads(self) -> None:
        """Move downloads so far to where the script wants them: its next run will look there."""
        self._downloads.keep(self._family.open_files)

    def send(self, do: str, **fields: object) -> None:
        """Give the child a command."""
        try:
            self._event_bus.send({"do": do, **fields})
        except OSError:
            raise self._gone() from None

    def receive(self, *wanted: str) -> Event:
        """The next event of one of these kinds; events of other kinds are skipped.

        Raises VariablesRead (in a run that may start again), ScriptEnded, ScriptFailed, CaptureImpossible (no torch),
        BudgetExceeded (no event within the time limit, or too much memory) and Cancelled.
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
                case "variables":
                    raise VariablesRead(", ".join(event["names"]))
                case "no_torch":
                    raise CaptureImpossible(
                        f"PyTorch is not installed in {event['executable']} (Python {event['python']})",
                        hint="Install it there (pip install torch), or name another with --interpreter.",
                    )
                case _:
                    deadline = time.monotonic() + self._timeout_s

    def stop(self) -> None:
        """Stop all processes of the run, including workers, until ``go_on``; they keep their memory."""
        self._family.stop()
        self._guard.rest()

    def go_on(self) -> None:
        """Let a stopped run continue."""
        self._guard.go_on()
        self._family.go_on()

    def cpu_s(self) -> tuple[float, float]:
        """Processor time that the run's processes have used so far: the script's own, and all others."""
        return self._family.cpu_s()

    def close(self) -> None:
        """End the run and everything it started."""
        try:
            self._end_process()
        finally:
            self._let_go()

    def _end_process(self) -> None:
        self._guard.stop()
        self.keep_downloads()
        self._family.end()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # A process blocked in the kernel ends when the call returns; its subreaper need not wait for that.
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.output.close()

    def _let_go(self) -> None:
        self._event_bus.close()
        if self._terminal is not None:
            self._terminal.close()
            self._terminal = None
        self._death_reaper.close()
        self._scratch.cleanup()

    def _await_call(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not self._event_bus.wait_for_call(_POLL_S):
            self._check_alive()
            if time.monotonic() > deadline:
                raise CaptureImpossible(
                    "The interpreter did not start in time",
                    hint="The machine may be overloaded: close other programs, and try again.",
                )
        self._called = True

    def _next_event(self, deadline: float) -> Event | None:
        while True:
            try:
                event = self._event_bus.next_event(_POLL_S)
                if event is not None:
                    return event
            except (EOFError, OSError):
                raise self._gone() from None
            self._check_alive()
            if time.monotonic() > deadline:
                return None

    def _check_alive(self) -> None:
        if self._cancel.is_set():
            raise Cancelled("Profiling was cancelled")
        self._check_limits()
        if self._process.poll() is not None and not self._event_bus.waiting():
            raise self._gone()

    def _check_limits(self) -> None:
        excess = self._guard.excess
        if excess is not None:
            raise BudgetExceeded(excess.message, hint=excess.hint)

    def _gone(self) -> ScriptFailed | CaptureImpossible:
        """The error for a child that ended without a message, by a crash in native code or by ``os._exit``.

        If it ended before its call, the cause is in Skyline's own code or in the interpreter.
        """
        # The guard may have just ended it.
        self._check_limits()
        try:
            status = self._process.wait(_GONE_GRACE_S)
        except subprocess.TimeoutExpired:
            status = 0
        tail = self._redactor.scrub(self.output.tail())
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        if not self._called:
            cause = tail.strip().rpartition("\n")[2]
            told = f": {cause}" if cause else ""
            return CaptureImpossible(
                f"The interpreter was ended by signal {name} before the script began{told}"
                if status < 0
                else f"The interpreter exited with status {status} before the script began{told}",
                hint=tail or "It printed nothing. Try another interpreter with --interpreter.",
            )
        said = last_words(self.scratch)
        message = said or (
            f"The script was ended by signal {name}"
            if status < 0
            else f"The script exited with status {status} before it could be measured"
        )
        shown = "" if self.output.passed_on else tail
        gone = ScriptFailed(message, traceback=shown, hint="" if said else _why_gone(status))
        gone.is_told = False
        return gone

    def _failed(self, failed: Failed) -> ScriptFailed | CaptureImpossible:
        if failed.hint:
            return CaptureImpossible(
                self._redactor.scrub(failed.message), hint=failed.hint, file=failed.file, line=failed.line
            )
        traceback = raised = self._redactor.scrub(failed.traceback)
        message = self._redactor.scrub(failed.message)
        if failed.status is not None:
            printed, shown = self._redactor.scrub(self.output.tail()), self.output.passed_on
            if failed.status and not failed.boundaries:
                refused = _arguments_refused(failed, message, printed, shown=shown)
                if refused is not None:
                    return refused
            message = f"The script ended itself: {message}"
            traceback = "" if shown else printed
        hint = next_step(message, self._interpreter, traceback=raised)
        error = ScriptFailed(message, traceback=traceback, hint=hint, file=failed.file, line=failed.line)
        error.files = failed.modules
        error.is_told = failed.status is None
        return error

    def _timed_out(self) -> BudgetExceeded:
        """The error for a script that took too long, with the line that it is on."""
        stack: list[CodeLine] = []
        try:
            self.send("where")
            deadline = time.monotonic() + _WHERE_TIMEOUT_S
            while (event := self._next_event(deadline)) is not None:
                if event["event"] == "where":
                    stack = msgspec.convert(event["stack"], list[CodeLine])
                    break
        except ScriptFailed:
            pass
        own = str(ENTRY.parent)
        rows = [row for row in stack if not row.file.startswith((own, "<"))]
        message = f"No training step within {self._timeout_s:g} s"
        if not rows:
            return BudgetExceeded(
                f"{message}; the script does not answer, so it is inside native code",
                hint=_LONGER,
            )
        library = ("site-packages", "dist-packages", "/lib/python")
        at = next((row for row in reversed(rows) if not any(part in row.file for part in library)), rows[-1])
        return BudgetExceeded(
            f"{message}; the script was in {at.function}",
            file=at.file,
            line=at.line,
            hint=_LONGER,
        )


_LONGER = (
    "Raise the limit with --timeout if the script only needs more time. A script that evaluates, generates "
    "or serves needs "
    "--inference."
)


def _why_gone(status: int) -> str:
    """The usual reason why a process ends without a message, and the next step."""
    if status >= 0:
        return "The script, or an extension, called os._exit: remove this call for the profiling run."
    if -status == signal.SIGKILL:
        return "The usual cause is that the system ran out of memory: try a smaller batch size."
    return "It crashed in native code. To see where: python -X faulthandler SCRIPT"


def _arguments_refused(failed: Failed, message: str, output: str, *, shown: bool) -> ArgumentsRefused | None:
    """The error for a script that exited before its first iteration because of its arguments; None for other reasons.

    The usual exit status is 2; docopt and scripts with their own parser print the usage text and exit with 1.
    ``shown`` is True if the user has seen the output.
    """
    given = usage_text(message)
    usage = given or usage_text(output)
    if not usage and (failed.status != _USAGE_STATUS or not output.strip()):
        return None
    usage = usage or output.strip()
    wrong = complaint(usage)
    error = ArgumentsRefused(
        f"The script did not accept its arguments: {wrong}"
        if wrong
        else f"The script did not accept its arguments (exit status {failed.status})",
        usage=usage,
        traceback="" if shown and not given else usage,
        hint=f"Give the arguments after the script: skyline profile {Path(failed.file).name} ARGS…\n"
        "In an editor set skyline.profile.args.",
        file=failed.file,
    )
    error.files = failed.modules
    return error
