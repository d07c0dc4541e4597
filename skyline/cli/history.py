"""``skyline history``: step time and memory of a script over its commits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skyline.cli.capture_options import check_script
from skyline.cli.command_line import parser
from skyline.cli.streams import deliver, write_whole
from skyline.errors import ExitCode, UsageError

_EXAMPLES = """\
  skyline history train.py
  skyline history --html history.html train.py
  skyline history --json - train.py"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "history",
        "[options] SCRIPT",
        "Show step time and peak memory of all profiles of a script by commit, the commits\n"
        "at which it became slower, and the lines that grew. Nothing is run.",
        _EXAMPLES,
    )
    command.add_argument(
        "--json", metavar="FILE", help="write the history as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("--html", metavar="FILE", help="write the page with charts as HTML")
    command.add_argument("script", metavar="SCRIPT")
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(list(arguments))
    from skyline.report.commit_history import history_report
    from skyline.report.pages.commit_history import history_page
    from skyline.trace import store
    from skyline.verification.commits import commits_of

    script = Path(options.script)
    rows = store.history(script)
    if not rows:
        # A deleted script may have a history. A name without one is probably a typing error.
        check_script(script)
        raise UsageError(
            f"There is no saved profile of {script}", hint=f"Make one with: skyline profile {script}"
        )
    report = history_report(script.name, rows, commits_of(script, rows))
    page = history_page(report)
    if options.html is not None:
        from skyline.report.html.history import render_history

        write_whole(Path(options.html), render_history(page, report).encode("utf-8"))
    deliver(report, lambda: page, options.json)
    return int(ExitCode.OK)
