"""Runs the chosen command, and turns every failure into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from skyline.cli.streams import say, tell
from skyline.errors import (
    ArgumentsRefused,
    Cancelled,
    ExitCode,
    ScriptFailed,
    SkylineError,
    UsageError,
)
from skyline.version import __version__

# Each module has run(arguments) -> int, and make_parser() for completion. The summaries are here so that --help
# imports none of the modules.
COMMANDS = {
    "profile": "run a training script and show where its time and memory go",
    "whatif": "predict the effect of a change",
    "ranks": "find the rank of a distributed job that the others wait for",
    "apply": "make a change in the script",
    "verify": "measure a change and compare it with the prediction",
    "watch": "run a whole training, and report problems while it runs",
    "tune": "search for the fastest combination of changes, by measuring",
    "sweep": "show time, memory and utilisation over the values of a setting",
    "check": "check a script against its budget and base revision, for CI",
    "ledger": "list earlier predictions and their measurements",
    "show": "show a saved profile again",
    "receive": "receive a project and profile it, for skyline profile --host",
    "history": "show a script's step time over commits, and the lines that grew",
    "diff": "compare two saved profiles",
    "export": "write a profile for another viewer",
    "tui": "open the terminal interface",
    "lsp": "run the language server for an editor",
    "serve": "show a script's figures in the browser, and keep them current",
    "devices": "predict a script on several GPUs: time, memory, cost, energy",
    "estimate": "estimate time and cost to train, by batch size",
    "plan": "rank parallel strategies on a cluster: time, memory, cost",
    "calibrate": "measure this machine for better predictions",
    "gpus": "list the GPUs that times can be predicted for",
    "config": "list the settings, and where each comes from",
    "completion": "print the script that completes command lines in a shell",
    "doctor": "show what works here, what does not, and why",
}

_EXAMPLES = """\
examples:
  skyline profile train.py --epochs 1        where does the time go?
  skyline whatif train.py batch_size=64      predict the gain of a larger batch
  skyline verify train.py num_workers=2      measure it, without changing a file
  skyline apply train.py num_workers=2       make the change
  skyline tui train.py                       do all of this interactively

exit codes: 0 success, 1 script failed, 2 usage, 3 nothing could be measured,
4 a limit was exceeded, 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code of the process."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_printable()
    if "_ARGCOMPLETE" in os.environ and argv is None:
        import_module("skyline.cli.completion").answer()
    try:
        return _dispatch(arguments)
    except ScriptFailed as error:
        _print_script_failure(error)
        return int(error.exit_code)
    except Cancelled as error:
        say(f"skyline: {error.message or 'interrupted'}")
        return int(ExitCode.INTERRUPTED)
    except SkylineError as error:
        _print_problem(error)
        return int(error.exit_code)
    except KeyboardInterrupt:
        say("skyline: interrupted")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has ended, as in `| head`. This is not an error. Python would still complain
        # when it flushes stdout at exit, so give it something to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    finally:
        if argv is None:
            # Skip the garbage collection at the end of the process.
            gc.freeze()


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        say(_help())
        return int(ExitCode.USAGE)
    name = arguments[0]
    if name in {"-h", "--help", "help"} and len(arguments) == 1:
        tell(_help())
        return int(ExitCode.OK)
    if name == "help":
        return _dispatch([arguments[1], "--help"])
    if name in {"-V", "--version", "version"}:
        tell(f"skyline {__version__}")
        return int(ExitCode.OK)
    if name not in COMMANDS:
        raise _unknown(name)
    try:
        return int(import_module(f"skyline.cli.{name}").run(arguments[1:]))
    except SystemExit as exit_:
        # argparse exits this way: with 0 after --help, with 2 after a usage error.
        return exit_.code if isinstance(exit_.code, int) else int(ExitCode.USAGE)


def _help() -> str:
    width = max(map(len, COMMANDS)) + 2
    commands = "\n".join(f"  {name:<{width}}{summary}" for name, summary in COMMANDS.items())
    return (
        "usage: skyline COMMAND ...\n\n"
        "How fast is this PyTorch training script, where does the time go, and how much\nwould a change gain?\n\n"
        f"commands:\n{commands}\n\n"
        "options:\n  -h, --help     this text; skyline COMMAND --help for one command\n"
        f"  -V, --version  the version\n\n{_EXAMPLES}"
    )


def _unknown(name: str) -> UsageError:
    from difflib import get_close_matches

    if name.endswith((".py", ".ipynb")):
        return UsageError(f"{name!r} is not a command", hint=f"Did you mean: skyline profile {name}")
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean: skyline {near[0]}" if near else f"The commands are: {', '.join(COMMANDS)}."
    return UsageError(f"{name!r} is not a command", hint=hint)


def _print_problem(error: SkylineError) -> None:
    where = f"{error.file}:{error.line}: " if error.file and error.line else ""
    for line in _fitted(_told(f"skyline: {where}{error.message}"), ""):
        say(line)
    for hint in _told(error.hint).splitlines():
        for line in _fitted(hint, "  "):
            say(line)


def _told(text: str) -> str:
    """A message in which places in notebooks are named by cell."""
    if ".ipynb" not in text:
        return text
    from skyline.report.cells import told_in_cells

    return told_in_cells(text)


def _fitted(text: str, indent: str) -> list[str]:
    """``text`` wrapped between words on a terminal. A single line in a file, so that it can be searched."""
    if not sys.stderr.isatty():
        return [indent + text]
    from shutil import get_terminal_size
    from textwrap import wrap

    width = max(40, get_terminal_size().columns)
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [indent + text]


def _print_script_failure(error: ScriptFailed) -> None:
    """Print the script's own traceback unchanged, as the user would see it without Skyline."""
    if error.traceback:
        say(_told(error.traceback.rstrip("\n")))
    if isinstance(error, ArgumentsRefused) or not (error.traceback and error.is_told):
        _print_problem(error)
    elif error.hint:
        say(f"skyline: {error.hint}")


def _make_printable() -> None:
    """Prevent failing output if the terminal's encoding lacks a character of the user's source."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
