"""``skyline check``: compare a script with its budget and its base revision, for continuous integration."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skyline.cli.capture_options import (
    add_options,
    check_script,
    refuse_prediction,
    request_of,
    running,
    terminable,
)
from skyline.cli.command_line import parse_after_names, parser
from skyline.cli.numbers import minutes, positive
from skyline.cli.streams import deliver, encoded, write_data
from skyline.errors import ScriptFailed, UsageError

if TYPE_CHECKING:
    from skyline.report.check import CheckReport
    from skyline.settings.budget import Budget
    from skyline.verification.base_revision import BaseRevision

_EXAMPLES = """\
  skyline check                                  the script and limits of [tool.skyline.budget]
  skyline check train.py --base origin/main      at most 5 % slower than origin/main
  skyline check train.py --slower 3% --markdown summary.md --junit skyline.xml"""
_EXIT_CODES = {"within": 0, "over": 1, "inconclusive": 2}
_DEFAULT_SLOWER = "5%"
_ROUNDS = 6


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "check",
        "[options] [SCRIPT [ARGS...]]",
        "Check a script against the limits of [tool.skyline.budget] in its pyproject.toml,\n"
        "and against a base revision of git: both run alternately on this machine.\n"
        "Exit code: 0 within the budget, 1 over, 2 inconclusive or not measured.",
        _EXAMPLES,
    )
    add_options(command)
    command.add_argument("--base", metavar="REV", help="git revision to compare with, such as origin/main")
    command.add_argument(
        "--slower",
        metavar="PERCENT",
        help=f"largest allowed slowdown (default: {_DEFAULT_SLOWER[:-1]} %% with a base)",
    )
    command.add_argument(
        "--rounds",
        type=positive,
        default=_ROUNDS,
        metavar="N",
        help=f"rounds for each pair of processes (default: {_ROUNDS}; at least 6)",
    )
    command.add_argument(
        "--minutes",
        type=minutes,
        default=10.0,
        metavar="M",
        help="start no further pair of processes that would end after M minutes (default: 10)",
    )
    command.add_argument("--markdown", metavar="FILE", help="write the outcome as Markdown ('-': to stdout)")
    command.add_argument("--junit", metavar="FILE", help="write the outcome as JUnit XML")
    command.add_argument(
        "--json", metavar="FILE", help="write the outcome as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("words", metavar="SCRIPT", nargs="*")
    return command


def run(arguments: Sequence[str]) -> int:
    options, options_of_script = parse_after_names(arguments, make_parser())
    refuse_prediction(options)
    script, budget = _budget(options)
    check_script(script)
    typed = (*options.words[1:], *(options_of_script or ()))
    report = _checked(script, typed or budget.arguments, budget, options)
    _write(report, options)
    return _EXIT_CODES[report.outcome]


def _budget(options: argparse.Namespace) -> tuple[Path, Budget]:
    from skyline.settings.budget import Budget
    from skyline.settings.pyproject import budget_of
    from skyline.toml import converted

    named = Path(options.words[0]) if options.words else None
    found = budget_of((named or Path("train.py")).absolute().parent)
    budget, folder = found if found is not None else (Budget(), Path.cwd())
    script = named or (folder / budget.script if budget.script else None)
    if script is None:
        raise UsageError(
            "No script is given, and [tool.skyline.budget] does not name one",
            hint='Give a script, or write script = "train.py" into [tool.skyline.budget] of pyproject.toml.',
        )
    given = {"base": options.base, "slower": options.slower}
    values = {
        name: value for name in Budget.__struct_fields__ if (value := getattr(budget, name)) is not None
    }
    values |= {name: value for name, value in given.items() if value is not None}
    if "base" in values:
        values.setdefault("slower", _DEFAULT_SLOWER)
    elif "slower" in values:
        raise UsageError(
            "The limit on the slowdown needs a base to compare with",
            hint="Add --base origin/main, or set base in [tool.skyline.budget].",
        )
    budget = converted(msgspec.to_builtins(values), Budget, "--slower")
    limits = [budget, budget.cpu, budget.cuda]
    if not any(getattr(one, name, None) for one in limits for name in _limit_names()):
        raise UsageError(
            "There is no limit to check",
            hint="Name a base (--base origin/main), or set limits in [tool.skyline.budget] of pyproject.toml.",
        )
    return script, budget


def _limit_names() -> tuple[str, ...]:
    from skyline.settings.budget import Limits

    return Limits.__struct_fields__


def _checked(
    script: Path, arguments: tuple[str, ...], budget: Budget, options: argparse.Namespace
) -> CheckReport:
    from skyline.report.check import check_report
    from skyline.verification.base_revision import checked_out
    from skyline.verification.budget_check import checked
    from skyline.verification.measure import Effort

    effort = Effort(options.rounds, options.minutes)
    request = request_of(script, arguments, options)
    with ExitStack() as stack:
        stack.enter_context(terminable())
        revision = stack.enter_context(checked_out(script, budget.base)) if budget.base else None
        base = request if revision is None else replace(request, script=revision.script)
        display, starter = stack.enter_context(running(quiet=options.quiet))
        with _named_failures(revision):
            found = checked(base, request, budget, effort, progress=display.progress, starter=starter)
    notes: tuple[str, ...] = ()
    if revision is not None and (shared := revision.shared(found.base_modules)):
        said = f"The base imported {len(shared)} modules of the working tree, such as {Path(shared[0]).name}"
        notes = (
            f"{said}: their changes are not compared. The cause is a package that is installed in editable mode.",
        )
    named = "" if revision is None else f"{budget.base} ({revision.commit})"
    return check_report(str(script), named, found, notes)


@contextmanager
def _named_failures(revision: BaseRevision | None) -> Generator[None, None, None]:
    """A context that marks a failure as one of the base revision."""
    try:
        yield
    except ScriptFailed as error:
        if revision is not None and str(revision.root) in (error.file or error.traceback):
            missing = "It lacks files that git does not track."
            error.message = f"At {revision.commit}, the base: {error.message}"
            error.hint = f"The base revision {revision.commit} failed. {error.hint or missing}"
        raise


def _write(report: CheckReport, options: argparse.Namespace) -> None:
    from skyline.report.check import junit, markdown

    for place, text in (
        (options.json, lambda: encoded(report)),
        (options.junit, lambda: junit(report)),
        (options.markdown, lambda: markdown(report).encode("utf-8")),
    ):
        if place is not None:
            write_data(place, text())
    if "-" not in (options.json, options.markdown, options.junit):
        from skyline.report.pages.check import check_page

        deliver(report, lambda: check_page(report), None)
