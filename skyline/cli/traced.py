"""What the commands do with a PyTorch profiler trace instead of a profile."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.streams import data_console, write_data
from skyline.errors import ExitCode, UsageError
from skyline.trace.kineto import recognition

if TYPE_CHECKING:
    from skyline.whatif.recording import Recording


def is_trace(source: str) -> bool:
    """Whether a path names a file that begins as the PyTorch profiler's traces do, packed or not."""
    return recognition.is_trace(Path(source))


def refuse_trace(source: str) -> UsageError:
    """The error of commands that need a profile."""
    return UsageError(
        f"{source} is a PyTorch profiler trace: it names no script and has no sources",
        hint=f"Traces can be asked with: skyline whatif {source}. For everything else: skyline profile SCRIPT",
    )


def ask(source: str, names: Sequence[str], json: str | None) -> int:
    """``skyline whatif TRACE``: the whole page, or the answers to what was asked."""
    from skyline.analysis.traced_answers import check_choices
    from skyline.whatif.question import Choice

    choices = tuple(Choice.parse(name) for name in names)
    check_choices(choices)
    recording = _read(source)
    from skyline.report.build import encode
    from skyline.report.traced import trace_report, traced_whatif_report

    answers = traced_whatif_report(recording, choices)
    if json is not None:
        write_data(json, encode(answers) + b"\n")
    if json != "-":
        from skyline.report.text.traced import render_trace, render_trace_answers

        report = trace_report(recording, source)
        render = render_trace_answers if choices else render_trace
        render(report, answers, data_console())
    return int(ExitCode.OK)


def show(source: str, options: argparse.Namespace) -> int:
    """``skyline show TRACE``: the whole page, or ``skyline.trace/1``."""
    if options.line is not None or options.format == "html":
        wanted = "--line" if options.line is not None else "--format html"
        raise UsageError(f"{wanted} is for profiles: {source} is a PyTorch profiler trace")
    recording = _read(source)
    from skyline.report.build import encode
    from skyline.report.traced import trace_report, traced_whatif_report

    report = trace_report(recording, source)
    if options.json is not None:
        write_data(options.json, encode(report) + b"\n")
    if options.format == "json" and options.json != "-":
        write_data("-", encode(report) + b"\n")
    elif options.format == "text" and options.json != "-":
        from skyline.report.text.traced import render_trace

        render_trace(report, traced_whatif_report(recording), data_console())
    return int(ExitCode.OK)


def exported(source: str, form: str) -> bytes:
    """``skyline export TRACE``: both timelines side by side, or ``skyline.trace/1``.

    Raises:
        UsageError: a format that only profiles have.
    """
    if form not in {"perfetto", "json"}:
        raise UsageError(
            f"{form} is for profiles: {source} is a PyTorch profiler trace",
            hint="A trace can be exported with --format perfetto or --format json.",
        )
    recording = _read(source)
    if form == "json":
        from skyline.report.build import encode
        from skyline.report.traced import trace_report

        return encode(trace_report(recording, source)) + b"\n"
    from skyline.report.perfetto_traced import side_by_side

    return side_by_side(recording, source)


def _read(source: str) -> Recording:
    from skyline.trace.kineto.reader import read
    from skyline.whatif.recording import recording

    return recording(read(Path(source)))
