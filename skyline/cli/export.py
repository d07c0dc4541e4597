"""``skyline export``: a saved profile or a profiler trace for other viewers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skyline.cli import traced
from skyline.cli.command_line import parser
from skyline.cli.streams import encoded, say, write_data
from skyline.cli.subject import saved_profile
from skyline.errors import ExitCode
from skyline.trace.kineto.container import is_trace
from skyline.trace.profile import Profile
from skyline.units import format_bytes

_EXAMPLES = """\
  skyline export train.py --format perfetto -o train.json.gz  # ui.perfetto.dev
  skyline export train.py --format speedscope -o train.speedscope.json
  skyline export train.py --format html -o train.html
  skyline export trace.json.gz --format perfetto -o both.json.gz"""

FORMATS = ("perfetto", "speedscope", "html", "json")


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "export",
        "FILE|SCRIPT --format FORMAT -o OUTPUT",
        "Write a saved profile, or a PyTorch profiler trace, in another viewer's format.",
        _EXAMPLES,
    )
    command.add_argument(
        "source",
        metavar="FILE|SCRIPT",
        help="a saved profile, a PyTorch profiler trace, or a script for its latest profile",
    )
    command.add_argument(
        "--format", choices=FORMATS, required=True, help="perfetto is gzipped Chrome trace JSON"
    )
    command.add_argument(
        "-o", "--output", metavar="OUTPUT", required=True, help="file to write ('-': stdout)"
    )
    command.add_argument("--force", action="store_true", help="overwrite an existing file")
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)
    if is_trace(options.source):
        data = traced.exported(options.source, options.format)
    else:
        data = _exported(saved_profile(options.source).profile, options.format)
    write_data(options.output, data, overwrite=options.force)
    if options.output != "-":
        say(f"skyline: wrote {options.output} ({format_bytes(len(data))})")
    return int(ExitCode.OK)


def _exported(profile: Profile, form: str) -> bytes:
    if form in {"speedscope", "perfetto"}:
        from skyline.report.cells import by_cells

        profile = by_cells(profile)
    if form == "speedscope":
        from skyline.report.speedscope import speedscope

        return speedscope(profile)
    from skyline.analysis.analyse import analyse

    analysis = analyse(profile)
    if form == "perfetto":
        from skyline.report.perfetto import chrome_trace

        return chrome_trace(profile, analysis.timeline)
    if form == "html":
        from skyline.report import html

        return html.render(analysis).encode("utf-8")
    from skyline.report.build import profile_report

    return encoded(profile_report(analysis))
