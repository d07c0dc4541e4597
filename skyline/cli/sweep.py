"""``skyline sweep``: time, memory and utilisation of an iteration for several values of a setting."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options, request_of, running
from skyline.cli.command_line import parse_after_names, parser
from skyline.cli.numbers import duration, natural, positive
from skyline.cli.project import fill_in
from skyline.cli.streams import deliver, write_whole
from skyline.cli.subject import require_script
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.capture.request import CaptureRequest
    from skyline.report.sweep import SweepReport
    from skyline.sweep.point import FailedPoint
    from skyline.sweep.run import Swept
    from skyline.sweep.setting import SweptSetting
    from skyline.trace.profile import Profile

_EXAMPLES = """\
  skyline sweep train.py --vary HIDDEN=64:1024:64 --gpu h100   predicted, nothing is executed
  skyline sweep train.py --vary batch_size=8:256:x2            measured here
  skyline sweep train.py --vary n_embd=64:512:64 --gpu cpu     three values run here, the others are interpolated
  skyline sweep train.py --vary n_embd=256,384,512 --vary n_layer=2,4
  skyline sweep train.py --vary width@model.py:12=16:64:8 --epochs 1"""
_BUDGET_S = 600.0
_ROUNDS = 5
_RUNS = 3


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "sweep",
        "[options] SCRIPT --vary NAME=VALUES [--vary ...] [ARGS...]",
        "Show time, peak memory, throughput and utilisation of an iteration over the values\n"
        "of a setting: a constant, an option, a default, or a keyword of a call. Steps and\n"
        "knees of the curve are marked. With --gpu each point is predicted; without it the\n"
        "points are measured here, alternately. With --gpu cpu three values run here, and the\n"
        "prediction is fitted to them. No file is changed. Ctrl+C keeps the points so far.",
        _EXAMPLES,
    )
    add_options(command)
    # Replaces the option of the same name for the trials of a profile, which a sweep does not make.
    command.conflict_handler = "resolve"
    command.set_defaults(budget=None)
    group = command.add_argument_group("the sweep")
    group.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="a setting and its values: 64,128,256, 64:1024:64 (a step of 64), 64:1024:x2 (doubled) or 64:1024:/8 "
        "(8 values). NAME@LINE and NAME@FILE:LINE choose among several places, CLASS.NAME too. Several settings: every "
        "combination",
    )
    group.add_argument(
        "--budget",
        dest="sweep_budget_s",
        type=duration,
        default=_BUDGET_S,
        metavar="TIME",
        help="start no point after this time, such as 90s, 5m or 1h (default: 10m)",
    )
    group.add_argument(
        "--rounds",
        type=positive,
        default=_ROUNDS,
        metavar="N",
        help=f"rounds of a measured point (default: {_ROUNDS}; at least 3)",
    )
    group.add_argument(
        "--runs",
        type=natural,
        default=_RUNS,
        metavar="N",
        help=f"with --gpu cpu, values that also run here; the others are interpolated along the prediction (default: "
        f"{_RUNS}; 0: nothing runs)",
    )
    group.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON ('-': to stdout, without other output)"
    )
    group.add_argument("--html", metavar="FILE", help="write the page as HTML")
    command.add_argument("script", metavar="SCRIPT")
    command.add_argument(
        "words", metavar="ARGS", nargs="*", help="arguments of the script; after --, any arguments"
    )
    return command


def run(arguments: Sequence[str]) -> int:
    options, more = parse_after_names(arguments, make_parser())
    script = Path(options.script)
    require_script(script)
    fill_in(options, script, gpu=True)
    request = request_of(script, (*options.words, *(more or ())), options)
    settings = _settings(request, options)
    swept = _swept(request, settings, options)
    from skyline.report.sweep import sweep_report

    _show(sweep_report(str(script.absolute()), request.arguments, swept, options.rounds), options)
    return int(ExitCode.INTERRUPTED if swept.interrupted else ExitCode.OK)


def _settings(request: CaptureRequest, options: argparse.Namespace) -> tuple[SweptSetting, ...]:
    from skyline.predict.gpus import gpu_named
    from skyline.sweep.setting import settable_names, swept_settings
    from skyline.sweep.values import Varied

    if not options.vary:
        found = ", ".join(settable_names(request))
        raise UsageError(
            "Name a setting to vary: --vary NAME=VALUES",
            hint=f"{request.script.name} sets: {found}." if found else "Example: --vary HIDDEN=64:1024:64.",
        )
    varied = [Varied.parse(one) for one in options.vary]
    if request.gpu:
        gpu_named(request.gpu)
    return swept_settings(request, varied)


def _swept(request: CaptureRequest, settings: tuple[SweptSetting, ...], options: argparse.Namespace) -> Swept:
    from skyline.sweep.run import SweepEffort, sweep
    from skyline.sweep.setting import SweptScript

    saved = _saved(request)
    with running(quiet=options.quiet) as (display, starter):
        script = SweptScript(request, settings, starter)

        def on_failure(failed: FailedPoint) -> None:
            if not options.quiet:
                display.tell((f"{script.words(failed.values)} is left out: {failed.reason}",))

        return sweep(
            script,
            SweepEffort(options.sweep_budget_s, options.rounds, options.runs),
            progress=display.progress,
            on_failure=on_failure,
            saved=saved,
        )


def _saved(request: CaptureRequest) -> Profile | None:
    from skyline.cli.subject import measured_here
    from skyline.predict.gpus import gpu_named
    from skyline.sweep.this_processor import is_this_processor

    device = gpu_named(request.gpu) if request.gpu else None
    if device is None or not is_this_processor(device):
        return None
    return measured_here(request.script, request.arguments, device)


def _show(report: SweepReport, options: argparse.Namespace) -> None:
    from skyline.report.pages.sweep import sweep_page

    page = sweep_page(report, Path.cwd())
    if options.html is not None:
        from skyline.report.html.sweep import render_sweep

        write_whole(Path(options.html), render_sweep(page, report).encode("utf-8"))
    deliver(report, lambda: page, options.json)
