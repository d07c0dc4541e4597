"""``skyline devices``: predicted time, memory and cost of a script on each of several GPUs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options, request_of, running
from skyline.cli.command_line import (
    SCRIPT_SUFFIXES,
    keep_launch,
    misplaced,
    parser,
    read_launch,
    say_misplaced,
    split_at_script,
)
from skyline.cli.streams import deliver, say
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.launchers.launch import Launch
    from skyline.predict.gpu_spec import GpuSpec
    from skyline.predict.outlook import Outlook

_EXAMPLES = """\
  skyline devices train.py
  skyline devices --gpu t4,l4,a100,h100,h200,mi250 train.py --batch-size 64
  skyline devices --gpu h100,h200 --provider aws --grid 56 train.py
  skyline devices --json - train.py > devices.json"""


def make_parser() -> argparse.ArgumentParser:
    return _made()[0]


def _made() -> tuple[argparse.ArgumentParser, list[argparse.Action], list[argparse.Action]]:
    """The parser, the options of a capture, and the command's own."""
    command = parser(
        "devices",
        "[options] (SCRIPT | -m MODULE | LAUNCHER ...) [ARGS...]",
        "Predict a script on several GPUs, which need not be present: iteration time,\n"
        "throughput, memory, largest batch that fits, and cost and energy of an epoch.\n"
        "The script is traced by shape, and nothing runs on a GPU. Your own GPUs, prices\n"
        "and electricity go into a file: docs/devices.md.",
        _EXAMPLES,
    )
    capturing = add_options(
        command, ("NAMES", "GPUs, separated by commas (default: common GPUs and your own)")
    )
    asking = [
        command.add_argument(
            "--provider", metavar="NAME", default="", help="prices of this cloud only (default: the cheapest)"
        ),
        command.add_argument(
            "--grid", type=_grams, metavar="G", help="carbon dioxide of your electricity, in g per kWh"
        ),
        command.add_argument(
            "--json", metavar="FILE", help="write the figures as JSON ('-': to stdout, without other output)"
        ),
        command.add_argument(
            "--format", choices=("text", "json"), default="text", help="what is printed (default: text)"
        ),
    ]
    command.add_argument("script", metavar="SCRIPT", help="or -m MODULE, as for python")
    return command, capturing, asking


def run(arguments: Sequence[str]) -> int:
    command, capturing, asking = _made()
    ours, rest = split_at_script(arguments, [*capturing, *asking])
    if not rest:
        _without_script(ours)
    options = command.parse_args([*ours, *(["--", rest[0]] if rest else [])])
    script, launch = read_launch(rest, options)
    if launch.script and not script.exists():
        _no_script(launch.script, options.gpu)
    marked = len(ours) + len(rest) < len(arguments)
    if not marked:
        mine = [*asking, *(one for one in capturing if "--gpu" in one.option_strings)]
        taken, left = taken_back(launch.arguments, mine, script)
        if taken:
            options = command.parse_args([*ours, *taken, "--", rest[0]])
            launch = replace(launch, arguments=left)
            keep_launch(options, launch)
            say(
                f"skyline: {' '.join(taken)} is read as an option of Skyline, not of the script",
                quiet=options.quiet,
            )
    say_misplaced(command, script, launch.arguments, marked=marked, quiet=options.quiet)
    chosen = tuple(one.limited(options.memory) for one in _chosen(options.gpu))
    from skyline.predict.energy import own_grid_g_per_kwh
    from skyline.predict.prices import check_provider, own_prices

    # Checked before tracing, which takes a while, so that errors in the user's file are reported at once.
    own_prices()
    if options.provider:
        check_provider(options.provider)
    grid = options.grid if options.grid is not None else own_grid_g_per_kwh()
    found = _traced(script, launch, options, chosen)
    from skyline.report.devices import devices_report
    from skyline.report.pages.devices import devices_page

    report = devices_report(found, provider=options.provider, grid_g_per_kwh=grid)
    target = options.json or ("-" if options.format == "json" else None)
    deliver(report, lambda: devices_page(report), target)
    return int(ExitCode.OK)


def _without_script(ours: Sequence[str]) -> None:
    """Raise UsageError if the script's name was taken for the value of an option."""
    last = ours[-1] if ours else ""
    if len(ours) > 1 and last.endswith(SCRIPT_SUFFIXES):
        raise UsageError(
            f"The script is missing: {last} was read as the value of {ours[-2]}",
            hint=f"Example: skyline devices --gpu t4,h100 {last}",
        )


def _no_script(name: str, gpus: str | None) -> None:
    """Raise UsageError if a GPU was named in place of the script."""
    from skyline.predict.gpus import gpu_named

    try:
        gpu_named(name)
    except UsageError:
        return
    every = ",".join([*(gpus.split(",") if gpus else []), name])
    raise UsageError(
        f"{name} is a GPU, and the name of the script is expected here",
        hint=f"Separate GPUs by commas, without spaces: skyline devices --gpu {every} SCRIPT",
    )


def _chosen(names: str | None) -> tuple[GpuSpec, ...]:
    """The GPUs named by ``--gpu``, or the default ones."""
    from skyline.predict.gpus import gpus_named

    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    if names is not None and not wanted:
        raise UsageError(
            "--gpu needs the name of a GPU", hint="Example: --gpu t4,h100. All GPUs: skyline gpus"
        )
    return gpus_named(wanted)


def _traced(
    script: Path, launch: Launch, options: argparse.Namespace, chosen: Sequence[GpuSpec]
) -> tuple[Outlook, ...]:
    options.gpu = chosen[0].name
    request = request_of(script, launch.arguments, options)
    from skyline.predict.outlook import outlooks

    with running(quiet=options.quiet) as (display, starter):
        return outlooks(
            replace(request, device="auto"),
            chosen,
            progress=display.progress,
            output=display.output,
            starter=starter,
        )


def _grams(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 2000:
        raise argparse.ArgumentTypeError("grams of carbon dioxide per kWh must be between 0 and 2000")
    return value


def taken_back(
    arguments: Sequence[str], options: Iterable[argparse.Action], script: Path
) -> tuple[list[str], tuple[str, ...]]:
    """Skyline's long ``options`` among ``arguments``, with their values, and the remaining arguments of the script.

    Options that the script or a file next to it mentions are left to the script, and so is ``--gpu 0``, because a
    number is a device.
    """
    options = list(options)
    found = misplaced(arguments, options, script)
    flags = {word for option in options if option.nargs == 0 for word in option.option_strings}
    ours: list[str] = []
    left: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        name, equals, value = word.partition("=")
        count = 1 if equals or name in flags else 2
        words = arguments[index : index + count]
        given = value if equals else words[-1]
        if name in found and not re.fullmatch(r"[\d,]+", given):
            ours += words
            index += count
        else:
            left.append(word)
            index += 1
    return ours, tuple(left)
