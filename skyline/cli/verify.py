"""``skyline verify``: predict a change, measure it, and compare the two."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options, check_script, refuse_prediction, request_of, running
from skyline.cli.command_line import parse_after_names, parse_question, parser
from skyline.cli.numbers import minutes, positive
from skyline.cli.streams import deliver, say
from skyline.cli.subject import check_runnable, subject_of
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.capture.request import CaptureRequest
    from skyline.report.schema import VerifyReport
    from skyline.trace.profile import Profile
    from skyline.verification.measure import Effort

_EXAMPLES = """\
  skyline verify train.py fused_optimizer
  skyline verify train.py num_workers=2 batch_size=64 --rounds 12
  skyline verify train.py amp=bf16 --epochs 1         with script arguments
  skyline verify train.py --against mine.py           two scripts, no prediction"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "verify",
        "[options] SCRIPT NAME[=VALUE]... [ARGS...]\n"
        "       skyline verify [options] SCRIPT --against OTHER.py [ARGS...]",
        "Predict changes, save the prediction, and measure them: the unchanged script,\n"
        "the script with the changes in memory, and the unchanged script once more run\n"
        "alternately on this machine. No file is changed. SCRIPT may be a saved profile;\n"
        "a script is profiled first, unless its latest profile still fits its source.",
        _EXAMPLES,
    )
    add_options(command)
    command.add_argument(
        "--fresh", action="store_true", help="profile the script again, even if its latest profile is valid"
    )
    command.add_argument(
        "--rounds", type=positive, default=8, metavar="N", help="rounds (default: 8; at least 6)"
    )
    command.add_argument(
        "--minutes",
        type=minutes,
        default=15.0,
        metavar="M",
        help="start no round after M minutes (default: 15)",
    )
    command.add_argument(
        "--against", metavar="OTHER", help="compare SCRIPT with this script, without a prediction"
    )
    command.add_argument("--no-ledger", action="store_true", help="do not store the result in the ledger")
    command.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("script", metavar="SCRIPT")
    command.add_argument("names", metavar="NAME[=VALUE]", nargs="*")
    return command


def run(arguments: Sequence[str]) -> int:
    options, script_arguments = parse_after_names(arguments, make_parser())
    refuse_prediction(options)
    from skyline.verification.measure import Effort

    effort = Effort(options.rounds, options.minutes)
    if options.against is not None:
        if options.names:
            raise UsageError(
                "--against compares two unchanged scripts, and cannot be combined with what-ifs",
                hint="Remove one of them.",
            )
        return _compare(options, script_arguments or (), effort)
    if not options.names:
        raise UsageError(
            "Name a change to verify, for example fused_optimizer or num_workers=2",
            hint=f"List the changes that apply: skyline whatif {options.script}",
        )
    return _verify(options, script_arguments, effort)


def _verify(options: argparse.Namespace, arguments: tuple[str, ...] | None, effort: Effort) -> int:
    question = parse_question(options.names)
    subject = subject_of(options.script, arguments, options)
    profile = subject.profile
    from skyline.analysis.analyse import analyse
    from skyline.report.verification import verify_report
    from skyline.verification.verify import verify

    analysis = analyse(profile)
    request = run_request(profile, arguments, options)
    with running(quiet=options.quiet) as (display, starter):
        found = verify(
            analysis,
            question,
            request=request,
            effort=effort,
            keep=not options.no_ledger,
            progress=display.progress,
            starter=starter,
        )
    _show(verify_report(analysis, found), options, ledger=found.ledger_path)
    return int(ExitCode.OK)


def run_request(
    profile: Profile, arguments: tuple[str, ...] | None, options: argparse.Namespace
) -> CaptureRequest:
    """The run that produced the profile, with the same arguments, interpreter and folder.

    Raises UsageError for a profile of another machine.
    """
    if host := profile.environment.device.host:
        raise UsageError(
            f"{Path(profile.script).name} was profiled on {host}, and this command measures here",
            hint="Add --fresh to profile it here first, or run the command there.",
        )
    if arguments is None:
        check_runnable(profile)
    given = profile.arguments if arguments is None else arguments
    request = request_of(Path(profile.script), given, options, module=profile.module)
    return replace(
        request,
        interpreter=options.interpreter or profile.interpreter or None,
        working_directory=Path(profile.working_directory),
    )


def _compare(options: argparse.Namespace, arguments: tuple[str, ...], effort: Effort) -> int:
    first, other = Path(options.script), Path(options.against)
    check_script(first)
    check_script(other)
    from skyline.report.verification import compare_report
    from skyline.verification.compare import compare

    with running(quiet=options.quiet) as (display, starter):
        found = compare(
            request_of(first, arguments, options),
            request_of(other, arguments, options),
            effort=effort,
            progress=display.progress,
            starter=starter,
        )
    _show(compare_report(str(first.absolute()), str(other.absolute()), found), options)
    return int(ExitCode.OK)


def _show(report: VerifyReport, options: argparse.Namespace, *, ledger: str = "") -> None:
    from skyline.report.pages.verification import verification_page

    deliver(report, lambda: verification_page(report, ledger=ledger), options.json)
    if options.json == "-" and not report.valid:
        say(f"skyline: discarded: {report.reason}", quiet=options.quiet)
