"""``skyline tune``: search for the fastest combination of changes within a time budget."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.cli.apply import write_edits
from skyline.cli.capture_options import add_options, refuse_prediction, terminable
from skyline.cli.command_line import parse_after_names, parser
from skyline.cli.display import Display
from skyline.cli.numbers import duration, gigabytes
from skyline.cli.streams import deliver, say, tell, write_whole
from skyline.cli.subject import require_script, saved_profile, subject_of
from skyline.cli.verify import run_request
from skyline.errors import ExitCode, RewriteRefused
from skyline.units import plural

if TYPE_CHECKING:
    from skyline.analysis.analyse import Analysis
    from skyline.cli.subject import LoadedProfile
    from skyline.tune.cluster import ClusterTrials
    from skyline.tune.paired import PairedTrials
    from skyline.tune.search import Lanes
    from skyline.tune.trials import TuneTrial

_EXAMPLES = """\
  skyline tune train.py                               five minutes, same training results
  skyline tune train.py --budget 10m --allow numerics rounding may differ
  skyline tune train.py --allow convergence --apply   other batch sizes too; make the change
  skyline tune train.py --resume --budget 2m          continue from the trials so far
  skyline tune train.py --workers tcp://10.0.0.5:8786 trials on the workers of a Dask scheduler
  skyline tune train.py --undo                        restore the files byte for byte"""
_DEFAULT_BUDGET_S = 300.0
_USUAL_PROFILE_S, _PROFILE_SHARE = 20.0, 0.1
"""Time limit for trials within the profile: 20 s, or a tenth of a short budget."""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "tune",
        "[options] SCRIPT [ARGS...]",
        "Search for the fastest combination of changes: what-ifs, loader settings and, if\n"
        "allowed, batch sizes. Simulations of its profile propose combinations; each is\n"
        "measured alternately with the unchanged script, in memory. The best one is\n"
        "verified and offered as one edit. Ctrl+C ends the search and keeps the best so far.",
        _EXAMPLES,
    )
    add_options(command, budget="--profile-budget")
    command.add_argument(
        "--fresh", action="store_true", help="profile the script again, even if its latest profile is valid"
    )
    group = command.add_argument_group("the search")
    group.add_argument(
        "--budget",
        dest="tune_budget_s",
        type=duration,
        default=_DEFAULT_BUDGET_S,
        metavar="TIME",
        help="time for the whole search, such as 90s, 5m or 1h, including a missing profile (default: 5m)",
    )
    group.add_argument(
        "--allow",
        choices=("numerics", "convergence", "model"),
        help="numerics: rounding may differ; convergence: training may converge differently, as with another batch "
        "size; model: the model itself may change (default: only what keeps the computation)",
    )
    group.add_argument(
        "--max-memory",
        type=gigabytes,
        metavar="GB",
        help="with at most this peak memory (default: the device's)",
    )
    group.add_argument(
        "--workers",
        type=_workers,
        metavar="ADDRESS|local:N",
        help="run the trials on the workers of this Dask scheduler, which can read the same files; local:N starts N "
        "workers on this machine",
    )
    group.add_argument("--resume", action="store_true", help="continue from the trials of the last search")
    group.add_argument("--apply", action="store_true", help="make the change, once it is verified")
    group.add_argument("--undo", action="store_true", help="restore the files that --apply changed")
    group.add_argument("--no-ledger", action="store_true", help="do not keep the trials in the ledger")
    group.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("script", metavar="SCRIPT")
    command.add_argument(
        "words", metavar="ARGS", nargs="*", help="arguments of the script; after --, any arguments"
    )
    return command


def run(arguments: Sequence[str]) -> int:
    began_s = time.monotonic()
    options, more = parse_after_names(arguments, make_parser())
    script_arguments = (*options.words, *(more or ())) if options.words or more is not None else None
    refuse_prediction(options)
    require_script(Path(options.script))
    if options.undo:
        return _undo(options)
    if options.budget is None and options.tune_budget_s < _USUAL_PROFILE_S / _PROFILE_SHARE:
        options.budget = _PROFILE_SHARE * options.tune_budget_s
    with ExitStack() as stack:
        client = None
        if options.workers is not None:
            from skyline.tune.cluster import trial_workers

            # Connect before profiling, so that a scheduler that does not answer is noticed before any measurement.
            client = stack.enter_context(trial_workers(options.workers))
        subject = subject_of(options.script, script_arguments, options)
        return _tune(subject, script_arguments, options, began_s, client)


def _workers(text: str) -> str:
    from skyline.job.workers import LOCAL

    if text.startswith("local:") and LOCAL.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            "must be the address of a Dask scheduler, or local:N, for example local:2"
        )
    return text


def _tune(
    subject: LoadedProfile,
    arguments: tuple[str, ...] | None,
    options: argparse.Namespace,
    began_s: float,
    client: Any,
) -> int:
    from skyline.analysis.analyse import analyse
    from skyline.analysis.best import Constraints
    from skyline.capture.warm_pool import WarmPool
    from skyline.report.pages.tune import tune_page
    from skyline.report.tune import trial_words, tune_report
    from skyline.tune.paired import PairedTrials, first_guess_s
    from skyline.tune.search import Budget, Measurer, tune
    from skyline.tune.space import Space, question_of
    from skyline.tune.trials import KeptTrials
    from skyline.verification.change import change
    from skyline.verification.verify import check_measurable
    from skyline.whatif.base import Semantics

    check_measurable(subject.profile)
    analysis = analyse(subject.profile)
    request = run_request(subject.profile, arguments, options)
    allowed = Semantics(options.allow or "exact")
    space = Space(analysis, Constraints(options.max_memory, allowed, rewritable=True))
    kept = KeptTrials.of(subject.profile.id, subject.path, resume=options.resume)
    if options.resume:
        count = len(kept.state.trials)
        words = (
            f"continues from {plural(count, 'trial')}"
            if count
            else "no trials of this profile to continue from"
        )
        say(f"skyline: {words}", quiet=options.quiet)
    with ExitStack() as stack:
        stack.enter_context(terminable())
        display = stack.enter_context(Display(quiet=options.quiet))
        # Import PyTorch once for all runs of the script.
        warm_pool = WarmPool()
        stack.callback(warm_pool.close)

        def on_trial(trial: TuneTrial) -> None:
            if problem := kept.add(trial):
                say(f"skyline: {problem}: a later search cannot continue from this one")
            if not options.quiet:
                display.tell((trial_words(trial, len(kept.state.trials)),))

        paired = PairedTrials(analysis, request, not options.no_ledger, starter=warm_pool.start)
        measurer: Measurer = paired
        lanes, notes = None, list[str]()
        if client is not None:
            measurer, lanes, notes = _on_workers(client, paired, display, quiet=options.quiet)
        before_s = time.monotonic() - began_s
        left_s = max(0.0, options.tune_budget_s - before_s)
        found = tune(
            space,
            measurer,
            Budget(left_s, first_guess_s(subject.profile), options.max_memory),
            earlier=kept.state.trials,
            on_trial=on_trial,
            progress=display.progress,
            lanes=lanes,
        )
    if subject.measured_now:
        notes.insert(0, f"{before_s:.0f} s of the budget went into the profile.")
    found = replace(found, spent_s=time.monotonic() - began_s)
    best = found.best if found.worth else None
    report = tune_report(
        options.script,
        allowed.value,
        options.tune_budget_s,
        found,
        left_out=space.left_out,
        diff="" if best is None else change(analysis, question_of(best.parts), request.arguments).diff,
        notes=tuple(notes),
    )
    deliver(report, lambda: tune_page(report, applied=options.apply), options.json)
    if options.apply and best is not None:
        _apply(analysis, best, options, subject)
    elif options.apply:
        say("skyline: nothing was changed")
    return int(ExitCode.INTERRUPTED if found.interrupted else ExitCode.OK)


def _on_workers(
    client: Any, paired: PairedTrials, display: Display, *, quiet: bool
) -> tuple[ClusterTrials, Lanes, list[str]]:
    """The object that measures on the workers of a cluster, its lanes, and the list that it adds notes to."""
    from skyline.tune.cluster import ClusterTrials, WorkerPool
    from skyline.tune.search import Lanes
    from skyline.tune.worker_trial import Files

    def say_too(said: str) -> None:
        if not quiet:
            display.tell((said,))

    pool = WorkerPool(client, Files.of(paired.analysis.profile, paired.request), say_too)
    trials = ClusterTrials(paired, pool)
    return trials, Lanes(lambda: len(pool), trials.cancel.set), pool.notes


def _apply(analysis: Analysis, best: TuneTrial, options: argparse.Namespace, subject: LoadedProfile) -> None:
    """Make the change. The previous files are stored for ``--undo``."""
    from skyline.rewrite.joint_edits import plan
    from skyline.source.project import check_inside
    from skyline.source.text import SourceText
    from skyline.tune.space import question_of
    from skyline.tune.undo import encoded_undo, undo_path

    planned = plan(analysis, question_of(best.parts), SourceText.read)
    if planned.refused:
        first = planned.refused[0]
        raise RewriteRefused(f"{first.name} was not applied: {first.reason}", hint="Nothing was changed.")
    files = {edit.span.file for edit in planned.edits}
    # The paths to write come from a file, which may be part of a folder that somebody else created.
    check_inside(Path(options.script), files, [Path.cwd()])
    before = {file: Path(file).read_bytes() for file in files}
    write_edits(planned.edits)
    for note in planned.notes:
        say(f"skyline: {note}")
    if subject.path is not None:
        write_whole(undo_path(subject.path, options.script), encoded_undo(before))
        tell(f"undo: skyline tune {shlex.quote(options.script)} --undo")


def _undo(options: argparse.Namespace) -> int:
    from skyline.source.project import check_inside
    from skyline.tune.undo import load_undo, undo_path

    found = saved_profile(options.script).path
    assert found is not None
    path = undo_path(found, options.script)
    changed = load_undo(path)
    check_inside(Path(options.script), [one.path for one in changed], [Path.cwd()])
    for one in changed:
        one.check()
    for one in changed:
        write_whole(Path(one.path), one.before)
        tell(f"restored {one.path}")
    path.unlink()
    return int(ExitCode.OK)
