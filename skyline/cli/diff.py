"""``skyline diff``: compare two profiles, to see if a change helped by more than the noise."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skyline.cli.command_line import parser
from skyline.cli.streams import deliver, say
from skyline.cli.subject import saved_profile
from skyline.errors import ExitCode

_EXAMPLES = """\
  skyline diff .skyline/train-A.profile.json.gz .skyline/train-B.profile.json.gz
  skyline diff baseline.profile.json.gz train.py --fail-over 5%"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "diff",
        "[options] BEFORE AFTER",
        "Compare two saved profiles. The name of a script means its latest profile.",
        _EXAMPLES,
    )
    command.add_argument("before", metavar="BEFORE")
    command.add_argument("after", metavar="AFTER")
    command.add_argument(
        "--json", metavar="FILE", help="write the comparison as JSON ('-': to stdout, without other output)"
    )
    command.add_argument(
        "--fail-over",
        type=_percent,
        metavar="PERCENT",
        help="exit with code 4 if AFTER is slower by more than this and by more than the noise",
    )
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)
    before, after = saved_profile(options.before), saved_profile(options.after)

    from skyline.analysis.analyse import analyse
    from skyline.report.build import profile_report
    from skyline.report.diff import diff
    from skyline.report.pages.diff import diff_page

    report = diff(profile_report(analyse(before.profile)), profile_report(analyse(after.profile)))
    deliver(report, lambda: diff_page(report, base=Path.cwd()), options.json)
    if options.fail_over is not None and report.verdict == "slower" and report.change > options.fail_over:
        say(f"skyline: slower by {report.change:.1%}, more than the {options.fail_over:.1%} that is allowed")
        return int(ExitCode.BUDGET_EXCEEDED)
    return int(ExitCode.OK)


def _percent(text: str) -> float:
    value = float(text.strip().removesuffix("%"))
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value / 100
