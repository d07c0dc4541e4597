"""``skyline whatif``: predict the effect of one change, or of several together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli import traced
from skyline.cli.capture_options import add_options
from skyline.cli.command_line import parse_after_names, parse_question, parser
from skyline.cli.numbers import gigabytes
from skyline.cli.streams import deliver, say
from skyline.cli.subject import is_script, subject_of
from skyline.errors import ExitCode, UsageError
from skyline.trace.kineto.container import is_trace
from skyline.uncollected import uncollected

if TYPE_CHECKING:
    from skyline.analysis.best import Constraints
    from skyline.ledger.ledger import LedgerEntry
    from skyline.report.document import Document
    from skyline.report.report_cache import CachedReport, ReportCache
    from skyline.trace.profile import Profile
    from skyline.whatif.question import Question

_EXAMPLES = """\
  skyline whatif train.py                             every what-if, ranked
  skyline whatif train.py batch_size=64 num_workers=2 one by one and together
  skyline whatif train.py amp=bf16 --epochs 1         with script arguments
  skyline whatif train.py --best --max-memory 4       best combination in 4 GB
  skyline whatif trace.json.gz                        a PyTorch profiler trace
  skyline whatif --gpu h100 trace.json.gz             its kernels on another GPU"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "whatif",
        "[options] SOURCE [NAME[=VALUE]...] [ARGS...]",
        "Predict the effect of changes. SOURCE is a saved profile, a script, or a\n"
        "PyTorch profiler trace; a script is profiled first, unless its latest profile\nstill fits its source.",
        _EXAMPLES,
    )
    add_options(command)
    add_constraint_options(command)
    command.add_argument(
        "--fresh", action="store_true", help="profile the script again, even if its latest profile is valid"
    )
    command.add_argument(
        "--json", metavar="FILE", help="write the answer as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("source", metavar="SOURCE")
    command.add_argument("names", metavar="NAME[=VALUE]", nargs="*")
    return command


def run(arguments: Sequence[str]) -> int:
    options, script_arguments = parse_after_names(arguments, make_parser())
    if is_trace(options.source):
        if script_arguments is not None:
            raise UsageError(
                f"{options.source} is a recording: it takes no arguments ({' '.join(script_arguments)})"
            )

        if options.best:
            raise UsageError("--best needs a profile: a trace does not show the memory that a change takes")
        # For work measured on a GPU, another GPU is a what-if like any other.
        asked = [*options.names, *([] if options.gpu is None else [f"gpu={_known(options.gpu)}"])]
        return traced.ask(options.source, asked, options.json)
    if options.gpu is not None:
        _known(options.gpu)
    question = parse_question(options.names) if options.names else None
    constraints = constraints_from(options)

    answered = _answered(Path(options.source), script_arguments, question, constraints, options)
    answer = answered.answers
    from skyline.report.basis import basis_parts, command_line, headline
    from skyline.report.pages.whatifs import whatifs_page
    from skyline.report.place import short_path

    def page() -> Document:
        report = answered.report
        lines = (f"{command_line(report)}: {headline(report)}", " · ".join(basis_parts(report)))
        # The commands on the page take the script, not its profile.
        script = options.source if is_script(Path(options.source)) else short_path(report.script, Path.cwd())
        return whatifs_page(answer, subject=lines, script=script, detail=question is not None)

    deliver(answer, page, options.json)
    return int(ExitCode.OK)


def _answered(
    source: Path,
    script_arguments: tuple[str, ...] | None,
    question: Question | None,
    constraints: Constraints | None,
    options: argparse.Namespace,
) -> CachedReport:
    """The head of the report and the answers, from the cache if the profile was asked the same before."""
    from skyline.cli.saved_report import answers_cache, files_of_answers

    script = source if is_script(source) else None
    cache: ReportCache | None = None
    if script is None and script_arguments is None and constraints is None:
        cache = answers_cache(source, None, question)
        if (known := cache.load()) is not None:
            return known
    subject = subject_of(options.source, script_arguments, options)
    if script is not None and subject.path is not None and constraints is None:
        cache = answers_cache(subject.path, script, question)
        if (known := cache.load()) is not None:
            return known
    found, is_complete = _computed(subject.profile, question, constraints, options)
    if cache is not None and is_complete:
        cache.keep(found, files_of_answers(subject.profile))
    return found


@uncollected(last=True)
def _computed(
    profile: Profile, question: Question | None, constraints: Constraints | None, options: argparse.Namespace
) -> tuple[CachedReport, bool]:
    """The head of the report and the answers; False if the ledger of earlier predictions could not be read."""
    from skyline.analysis.analyse import analyse
    from skyline.report.build import best_report, head_report, whatif_report, with_ledger
    from skyline.report.report_cache import CachedReport
    from skyline.whatif.question import BATCH_SIZE

    if question is None or any(choice.name == BATCH_SIZE for choice in question.all_choices):
        # The number of samples that a training needs matters only for other batch sizes.
        from skyline.watch.diary import with_reached_goal

        profile = with_reached_goal(profile)
    analysis = analyse(profile)
    from skyline.ledger.ledger import Conditions, Ledger, LedgerUnusable, range_factors

    if question is None:
        # A question about named changes does not search for others.
        from skyline.whatif.registry import problems

        for problem in problems():
            say(f"skyline: {problem}", quiet=options.quiet)
    earlier: tuple[LedgerEntry, ...] = ()
    is_complete = True
    try:
        earlier = Ledger().entries()
    except LedgerUnusable as error:
        say(f"skyline: {error.message}", quiet=options.quiet)
        is_complete = False
    analysis = analysis.with_range_factors(range_factors(earlier, Conditions.of(analysis.profile)))
    answer = whatif_report(analysis, question)
    if constraints is not None:
        answer = replace(answer, best=best_report(analysis, constraints))
    return CachedReport(head_report(analysis), with_ledger(answer, analysis, earlier)), is_complete


def _known(gpu: str) -> str:
    from skyline.predict.gpus import gpu_named

    device = gpu_named(gpu)
    if device.is_processor:
        raise UsageError(
            f"what-ifs cannot be predicted for {device.name}, which is a processor",
            hint="Omit --gpu to measure the script on this machine. skyline profile --gpu predicts the "
            "unchanged script.",
        )
    return device.name


_CLASSES = ("exact", "numerics", "convergence", "model")


def add_constraint_options(command: argparse.ArgumentParser) -> None:
    """Add ``--best`` and its options."""
    group = command.add_argument_group("the best combination")
    group.add_argument(
        "--best", action="store_true", help="search for the combination that is fastest together"
    )
    group.add_argument(
        "--max-memory",
        type=gigabytes,
        metavar="GB",
        help="with at most this peak memory (default: that of the device)",
    )
    group.add_argument(
        "--semantics",
        choices=_CLASSES,
        help="exact: only what keeps the computation; numerics: rounding may differ; convergence (default): "
        "training may converge differently, as with another batch size; model: the model itself may change",
    )
    group.add_argument(
        "--rewritable", action="store_true", help="only what Skyline can change in the code itself"
    )


def constraints_from(options: argparse.Namespace) -> Constraints | None:
    """The constraints set by the options. None without ``--best``.

    Raises:
        UsageError: options of ``--best`` are given without it, or names with it.
    """
    given = [
        name
        for name, value in (
            ("--max-memory", options.max_memory),
            ("--semantics", options.semantics),
            ("--rewritable", options.rewritable),
        )
        if value
    ]
    if not options.best:
        if given:
            raise UsageError(f"{given[0]} needs --best", hint=f"Write: --best {given[0]} …")
        return None
    if options.names:
        raise UsageError(
            f"--best cannot be combined with the what-if {options.names[0]}",
            hint="Omit the what-ifs or --best.",
        )
    from skyline.analysis.best import Constraints
    from skyline.whatif.base import Semantics

    semantics = Semantics(options.semantics) if options.semantics else Semantics.CONVERGENCE
    return Constraints(options.max_memory, semantics, options.rewritable)
