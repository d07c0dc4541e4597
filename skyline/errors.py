"""The errors a person can meet, each with its exit code and the next step to take."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the ``skyline`` process leaves with."""

    OK = 0
    SCRIPT_FAILED = 1
    USAGE = 2
    CAPTURE_IMPOSSIBLE = 3
    BUDGET_EXCEEDED = 4
    INTERRUPTED = 130


class SkylineError(Exception):
    """Something that stopped the work and that the person can act on.

    ``hint`` says what to do next; ``file`` and ``line`` point into the person's code where that is known.
    ``files`` are further files of theirs that had a part in it: the cause may lie in any of them.
    """

    exit_code = ExitCode.USAGE
    files: tuple[str, ...] = ()

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
    """The change cannot be made in this source without risk; the message says why.

    ``snippet`` is code for the person to write by hand, empty where there is none to show.
    """

    def __init__(
        self, message: str, *, hint: str = "", file: str = "", line: int = 0, snippet: str = ""
    ) -> None:
        super().__init__(message, hint=hint, file=file, line=line)
        self.snippet = snippet


class ScriptFailed(SkylineError):
    """The person's script raised; ``traceback`` is its own, with none of our frames."""

    exit_code = ExitCode.SCRIPT_FAILED

    def __init__(
        self, message: str, *, traceback: str = "", hint: str = "", file: str = "", line: int = 0
    ) -> None:
        super().__init__(message, hint=hint, file=file, line=line)
        self.traceback = traceback


class ArgumentsRefused(ScriptFailed):
    """The script did not accept its arguments; ``usage`` is what it printed about them.

    ``traceback`` is the same where the person has not seen it yet, else empty.
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
    """The person stopped the run."""

    exit_code = ExitCode.INTERRUPTED
