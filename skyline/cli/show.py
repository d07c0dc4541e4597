"""``skyline show``: show a saved profile or a profiler trace as text, JSON or HTML."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skyline.cli import traced
from skyline.cli.capture_options import page_path
from skyline.cli.command_line import parser
from skyline.cli.streams import deliver, encoded, say, write_data
from skyline.cli.subject import saved_path, saved_profile
from skyline.errors import ExitCode
from skyline.trace.kineto.container import is_trace
from skyline.uncollected import uncollected

_EXAMPLES = """\
  skyline show                                the latest profile of this folder
  skyline show train.py --json -              the latest of a script, as JSON
  skyline show train.py --line model.py:88     one line in full
  skyline show FILE --format html > page.html"""


@uncollected(last=True)
def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "show",
        "[options] [FILE|SCRIPT]",
        "Show a saved profile: a file, the latest one of a script, or the latest one in\nthis folder. "
        "FILE may be a PyTorch profiler trace, too.",
        _EXAMPLES,
    )
    command.add_argument("source", metavar="FILE|SCRIPT", nargs="?")
    command.add_argument("--format", choices=("text", "json", "html"), default="text", help="what to print")
    command.add_argument(
        "--json", metavar="FILE", help="write the profile as JSON ('-': to stdout, without other output)"
    )
    command.add_argument(
        "--line", metavar="[FILE:]LINE", help="all details of one line: phases, memory, operations, calls"
    )
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)
    if options.source is not None and is_trace(options.source):
        return traced.show(options.source, options)
    from skyline.cli.saved_report import reported

    path = saved_path(options.source)
    shown = reported(options.source, path)
    if shown.changed:
        names = ", ".join(Path(one).name for one in shown.changed)
        say(f"skyline: changed since this profile was made: {names}")
    report = shown.report
    if options.line is not None:
        from skyline.report.pages.lines import find_line, line_page

        deliver(report, lambda: line_page(report, find_line(report, options.line), Path.cwd()), None)
        return int(ExitCode.OK)
    if options.format == "text":
        from skyline.report.pages.profile import SavedPlaces, profile_page

        places = SavedPlaces(path, _page_beside(path))
        deliver(
            report,
            lambda: profile_page(report, shown.answers, base=Path.cwd(), saved=places),
            options.json,
        )
        return int(ExitCode.OK)
    if options.json is not None:
        write_data(options.json, encoded(report))
    if options.format == "html":
        from skyline.report import html

        sources = saved_profile(options.source).profile.sources
        write_data("-", html.render(report, shown.answers, sources).encode("utf-8"))
    elif options.json != "-":
        write_data("-", encoded(report))
    return int(ExitCode.OK)


def _page_beside(saved: Path) -> Path | None:
    """The HTML page that was written with a profile, if it still exists."""
    page = page_path(saved)
    return page if page.exists() else None
