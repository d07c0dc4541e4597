"""``skyline estimate``: time and cost to train to the same loss, by batch size."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options, request_of, running
from skyline.cli.command_line import parse_after_names, parser
from skyline.cli.numbers import amount, seconds
from skyline.cli.streams import deliver, say, write_whole
from skyline.cli.subject import LoadedProfile, check_runnable, is_script, subject_of
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.predict.checkpoint_interval import Failures
    from skyline.report.training import HourlyPrice
    from skyline.trace.observed_training import ObservedTraining
    from skyline.trace.profile import Profile

_EXAMPLES = """\
  skyline estimate train.py --epochs 90
  skyline estimate train.py --epochs 90 --gpu h100
  skyline estimate train.py --iterations 600000 --price 2.50
  skyline estimate train.py --epochs 90 -- --epochs 5 --lr 0.1   the rest is the script's"""
_OBSERVED_S = 30.0


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "estimate",
        "[options] (SCRIPT | PROFILE) (--epochs N | --iterations N | --samples N) [-- ARGS...]",
        "Estimate time and cost of a training to the same loss, at each batch size. A larger\n"
        "batch processes more samples per second, and needs more samples. The noise of the\n"
        "gradients determines how many. Skyline measures it while the script trains.",
        _EXAMPLES,
    )
    add_options(command)
    _add_own(command)
    return command


def run(arguments: Sequence[str]) -> int:
    options, script_arguments = parse_after_names(arguments, make_parser(), names=False)
    if len([one for one in (options.epochs, options.iterations, options.samples) if one is not None]) != 1:
        raise UsageError(
            "Give the length of the training with one option",
            hint="Example: --epochs 90, --iterations 600000 or --samples 1e9. Put the options of the script after --.",
        )
    if options.epochs is not None:
        _refuse_epochs_without_loader(options.source)
    subject = subject_of(options.source, script_arguments, options)
    from skyline.analysis.analyse import analyse
    from skyline.report.build import head_report
    from skyline.report.pages.training import training_page
    from skyline.report.training import amount_of, training_report

    wanted = amount_of(subject.profile, options.epochs, options.iterations, options.samples)
    profile = _observed(subject, options)
    price = _price(options.price, profile)
    profile = _with_goal(subject, profile, wanted.samples, price, options)
    analysis = analyse(profile)
    report = training_report(analysis, wanted, options.noise_scale, price, _failures(options.mtbf))
    page = training_page(report)
    if options.html is not None:
        from skyline.report import html

        text = html.render_answers(page, head_report(analysis))
        write_whole(Path(options.html), text.encode("utf-8"))
    deliver(report, lambda: page, options.json)
    return int(ExitCode.OK)


def _refuse_epochs_without_loader(source: str) -> None:
    """Raise UsageError before anything runs if the length of an epoch cannot be known."""
    path = Path(source)
    if path.suffix != ".py" or not path.is_file():
        return
    from skyline.source.loader_use import surely_has_no_loader
    from skyline.source.text import SourceText, read_if_there

    if surely_has_no_loader(SourceText.read(path.absolute()), read_if_there):
        raise UsageError(
            f"The length of an epoch is not known: {path.name} makes no DataLoader",
            hint="Give --iterations or --samples in place of --epochs.",
        )


def _add_own(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("training")
    group.add_argument(
        "--epochs", type=amount, metavar="N", help="passes over the training data, with the unchanged script"
    )
    group.add_argument(
        "--iterations", type=amount, metavar="N", help="optimizer steps, with the unchanged script"
    )
    group.add_argument(
        "--samples", type=amount, metavar="N", help="training samples, with the unchanged script"
    )
    group.add_argument(
        "--price",
        type=amount,
        metavar="USD",
        help="US dollars per hour (default with --gpu: its list price)",
    )
    group.add_argument(
        "--observe",
        type=seconds,
        metavar="S",
        help="seconds for which the script trains while its gradients are compared "
        f"(default: {_OBSERVED_S:g}, or the gradients in the profile)",
    )
    group.add_argument(
        "--noise-scale", type=amount, metavar="N", help="the critical batch size, instead of measuring it"
    )
    group.add_argument(
        "--mtbf",
        type=amount,
        metavar="HOURS",
        help="mean hours between two failures of the training, for the interval between checkpoints "
        "(default: 1145, from jobs on 8 GPUs)",
    )
    group.add_argument(
        "--fresh",
        action="store_true",
        help="profile and observe the script again, even if its latest profile is valid",
    )
    group.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON ('-': to stdout, without other output)"
    )
    group.add_argument("--html", metavar="FILE", help="write the page as HTML")
    command.add_argument("source", metavar="SCRIPT", help="a script or a saved profile")


def _price(given: float | None, profile: Profile) -> HourlyPrice | None:
    from skyline.report.training import HourlyPrice

    if given is not None:
        return HourlyPrice(given, "as given")
    if profile.prediction is None:
        return None
    from skyline.predict.gpus import gpu_named
    from skyline.predict.prices import prices_of

    first = next(iter(prices_of(gpu_named(profile.prediction.gpu))), None)
    if first is None:
        return None
    words = (first.provider, first.instance, first.date)
    return HourlyPrice(first.usd_per_gpu_hour, "list price of " + " ".join(filter(None, words)))


def _failures(mtbf_hours: float | None) -> Failures:
    from skyline.predict.checkpoint_interval import Failures

    return Failures() if mtbf_hours is None else Failures(mtbf_hours * 3600, "as given")


def _observed(subject: LoadedProfile, options: argparse.Namespace) -> Profile:
    """The profile with observed training. It is saved in its file, so that the next question needs no run."""
    profile = subject.profile
    known = profile.training is not None and not options.fresh and options.observe is None
    if known or (options.noise_scale is not None and options.observe is None):
        return profile
    check_runnable(profile)
    observed = replace(profile, training=_train(profile, options))
    _keep(subject, observed, options)
    return observed


def _with_goal(
    subject: LoadedProfile,
    profile: Profile,
    samples: float,
    price: HourlyPrice | None,
    options: argparse.Namespace,
) -> Profile:
    """The profile with the training goal. It is saved in its file, so that batch-size what-ifs state time and cost."""
    from skyline.trace.observed_training import TrainingGoal

    amounts = {"epochs": options.epochs, "iterations": options.iterations, "samples": options.samples}
    source = next(f"{value:,.10g} {unit}" for unit, value in amounts.items() if value is not None)
    goal = TrainingGoal(samples, price.usd if price is not None else None, options.noise_scale, source)
    if goal == profile.goal:
        return profile
    told = replace(profile, goal=goal)
    _keep(subject, told, options)
    return told


def _keep(subject: LoadedProfile, profile: Profile, options: argparse.Namespace) -> None:
    if not is_script(Path(options.source)) or subject.path is None:
        return
    from skyline.trace import store

    try:
        store.save(profile)
    except UsageError as error:
        say(f"skyline: {error.message}", quiet=options.quiet)


def _train(profile: Profile, options: argparse.Namespace) -> ObservedTraining:
    from skyline.analysis.gpu_costs import samples_of
    from skyline.capture.training_session import observe_training

    options.interpreter = options.interpreter or profile.interpreter
    options.gpu = options.memory = None
    request = request_of(Path(profile.script), profile.arguments, options, module=profile.module)
    folder = Path(profile.working_directory)
    if folder.is_dir():
        request = replace(request, working_directory=folder)
    with running(quiet=options.quiet) as (display, _):
        return observe_training(
            request,
            int(samples_of(profile) or 1),
            options.observe or _OBSERVED_S,
            progress=display.progress,
            output=display.output,
        )
