"""The commands for a PyTorch profiler trace in place of a profile."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.streams import deliver, encoded, write_data
from skyline.errors import ExitCode, UsageError
from skyline.uncollected import uncollected

if TYPE_CHECKING:
    from skyline.report.document import Document
    from skyline.whatif.subject import Subject


@uncollected(last=True)
def ask(source: str, names: Sequence[str], json: str | None) -> int:
    """``skyline whatif TRACE``: the whole page, or the answers to the given what-ifs."""
    from skyline.cli.command_line import parse_question

    choices = parse_question(names).all_choices or None
    subject = _read(source)
    from skyline.report.answers import answers_report
    from skyline.report.pages.traced import trace_answers_page, trace_page
    from skyline.report.traced import trace_report

    answers = answers_report(subject, choices)

    def page() -> Document:
        report = trace_report(subject, source, known=() if choices else answers.estimates)
        return (trace_answers_page if choices else trace_page)(report, answers)

    deliver(answers, page, json)
    return int(ExitCode.OK)


def show(source: str, options: argparse.Namespace) -> int:
    """``skyline show TRACE``: the whole page, or ``skyline.trace/1``."""
    if options.line is not None:
        raise UsageError(f"--line needs a profile, and {source} is a PyTorch profiler trace")
    if options.format == "html":
        write_data("-", exported(source, "html"))
        return int(ExitCode.OK)
    subject = _read(source)
    from skyline.report.answers import answers_report
    from skyline.report.traced import trace_report

    shown = options.format == "text" and options.json != "-"
    answers = answers_report(subject) if shown else None
    report = trace_report(subject, source, known=answers.estimates if answers is not None else ())
    if options.json is not None:
        write_data(options.json, encoded(report))
    if options.format == "json" and options.json != "-":
        write_data("-", encoded(report))
    elif shown:
        from skyline.report.pages.traced import trace_page

        deliver(report, lambda: trace_page(report, answers), None)
    return int(ExitCode.OK)


def exported(source: str, form: str) -> bytes:
    """``skyline export TRACE``: both timelines side by side, the page, or ``skyline.trace/1``.

    Raises:
        UsageError: the format exists only for profiles.
    """
    if form not in {"perfetto", "html", "json"}:
        raise UsageError(
            f"{form} needs a profile, and {source} is a PyTorch profiler trace",
            hint="A trace can be exported with --format perfetto, html or json.",
        )
    subject = _read(source)
    if form == "html":
        return _html(subject, source)
    if form == "json":
        from skyline.report.traced import trace_report

        return encoded(trace_report(subject, source))
    from skyline.report.perfetto_traced import side_by_side

    return side_by_side(subject, source)


def _html(subject: Subject, source: str) -> bytes:
    from skyline.report import html
    from skyline.report.answers import answers_report
    from skyline.report.pages.traced import trace_page
    from skyline.report.traced import trace_report

    answers = answers_report(subject)
    report = trace_report(subject, source, known=answers.estimates)
    names = html.PageNames(Path(source).name, f"{report.iteration_ms.value:.4g} ms per step", "Trace")
    return html.render_report(trace_page(report, answers), names, "trace", report).encode("utf-8")


def _read(source: str) -> Subject:
    from skyline.trace.kineto.reader import read
    from skyline.whatif.recorded import recorded

    return recorded(read(Path(source)))
