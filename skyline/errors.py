"""The errors that a user may see, each with its exit code and the next step."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the ``skyline`` process."""

    OK = 0
    SCRIPT_FAILED = 1
    USAGE = 2
    CAPTURE_IMPOSSIBLE = 3
    BUDGET_EXCEEDED = 4
    INTERRUPTED = 130


class SkylineError(Exception):
    """An error that stopped the work and that the user can resolve.

    ``hint`` is the next step. ``file`` and ``line`` refer to the user's code, if known. ``files`` are further files of
    the user that were involved: the cause may be in any of them. ``of_change`` is True if only the script with a change
    failed.
    """

    exit_code = ExitCode.USAGE
    files: tuple[str, ...] = ()
    of_change = False

    def __init__(self, message: str, *, hint: str = "", file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file and self.line else ""
        return f"{where}{self.message}" + (f"\n{self.hint}" if self.hint else "")


class UsageError(SkylineError):
    """The command line, a setting or an input file is not usable as given."""


class RewriteRefused(SkylineError):
    """The change cannot be made safely in this source; the message gives the reason.

    ``snippet`` is code for the user to write by hand; empty if there is none.
    """

    def __init__(
        self, message: str, *, hint: str = "", file: str = "", line: int = 0, snippet: str = ""
    ) -> None:
        super().__init__(message, hint=hint, file=file, line=line)
        self.snippet = snippet


class ScriptFailed(SkylineError):
    """The user's script raised an exception, or its process ended.

    ``traceback`` is the script's own, without Skyline's frames, or the last lines of its output if they were
    not shown yet. ``is_told`` is true if it contains the message, which lines of output do not.
    """

    exit_code = ExitCode.SCRIPT_FAILED
    is_told = True

    def __init__(
        self, message: str, *, traceback: str = "", hint: str = "", file: str = "", line: int = 0
    ) -> None:
        super().__init__(message, hint=hint, file=file, line=line)
        self.traceback = traceback


class ArgumentsRefused(ScriptFailed):
    """The script did not accept its arguments; ``usage`` is the usage text that it printed.

    ``traceback`` is the same text if the user has not seen it yet, else empty.
    """

    def __init__(
        self, message: str, *, usage: str, traceback: str = "", hint: str = "", file: str = ""
    ) -> None:
        super().__init__(message, traceback=traceback, hint=hint, file=file)
        self.usage = usage

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.usage, self.hint) if part)


class CaptureImpossible(SkylineError):
    """Nothing could be measured: no torch, no training step, or no interpreter."""

    exit_code = ExitCode.CAPTURE_IMPOSSIBLE


class BudgetExceeded(SkylineError):
    """A time or memory limit ended the run; the message says where the script was."""

    exit_code = ExitCode.BUDGET_EXCEEDED


class Cancelled(SkylineError):
    """The user stopped the run."""

    exit_code = ExitCode.INTERRUPTED
