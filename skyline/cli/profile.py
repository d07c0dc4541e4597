"""``skyline profile``: run the script, measure it, print the summary, and save the profile."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import (
    add_options,
    check_script,
    run_capture,
    save,
    terminable,
    with_page,
)
from skyline.cli.command_line import parser, read_launch, say_misplaced, split_at_script, without
from skyline.cli.project import fill_in, host_in_force
from skyline.cli.streams import deliver, say
from skyline.cli.subject import changed_sources
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.launchers.launch import Launch
    from skyline.trace.profile import Profile

_EXAMPLES = """\
  skyline profile train.py
  skyline profile --device cpu --steps 20 train.py --epochs 1 --lr 1e-3
  skyline profile -m package.train --epochs 1
  skyline profile torchrun --nproc-per-node 2 train.py
  skyline profile accelerate launch --num_processes 2 train.py
  skyline profile uv run train.py
  skyline profile --host gpubox train.py --epochs 1
  skyline profile --json - train.py > profile.json"""


def make_parser() -> argparse.ArgumentParser:
    return _made()[0]


def _made() -> tuple[argparse.ArgumentParser, list[argparse.Action], list[argparse.Action]]:
    """The parser, the options of a capture, and the options that are not sent to a host."""
    command = parser(
        "profile",
        "[options] (SCRIPT | -m MODULE | LAUNCHER ...) [ARGS...]",
        "Run a training script until enough iterations are measured, and show where time\n"
        "and memory go. Everything after SCRIPT is passed to the script. The script is\n"
        "not changed, and its output goes to stderr.",
        _EXAMPLES,
    )
    capturing = add_options(command)
    local = [
        command.add_argument(
            "--json", metavar="FILE", help="write the profile as JSON ('-': to stdout, without other output)"
        ),
        command.add_argument(
            "--output-dir", metavar="DIR", help="save here (default: .skyline next to the script)"
        ),
        command.add_argument("--no-save", action="store_true", help="save nothing"),
        command.add_argument(
            "--replace",
            action="store_true",
            help="use this measurement even if the machine is busy and an earlier one of the same code is faster",
        ),
        command.add_argument(
            "--host",
            metavar="HOST",
            help="run the script on this machine, named as for ssh: it gets a copy of the project, and the profile "
            "comes back (default: the setting profile.host)",
        ),
        command.add_argument(
            "--here",
            action="store_true",
            help="run the script on this machine, even if the settings name a host",
        ),
        command.add_argument(
            "--host-skyline",
            metavar="COMMAND",
            help="with --host: the command that starts Skyline there (default: skyline, else python3 -m skyline)",
        ),
    ]
    command.add_argument("script", metavar="SCRIPT", help="or -m MODULE, as for python")
    return command, capturing, local


def run(arguments: Sequence[str]) -> int:
    command, capturing, local = _made()
    ours, rest = split_at_script(arguments, [*capturing, *local])
    options = command.parse_args([*ours, *(["--", rest[0]] if rest else [])])
    script, launch = read_launch(rest, options)
    marked = len(ours) + len(rest) < len(arguments)
    say_misplaced(command, script, launch.arguments, marked=marked, quiet=options.quiet)
    from skyline.trace import store
    from skyline.trace.quieter_run import kept_instead

    host = host_in_force(options, script)
    if host is not None:
        measured = _on_host(host, script, launch, tuple(rest), without(ours, local), options)
    elif options.host_skyline is not None:
        raise UsageError(
            "--host-skyline needs --host", hint="Example: skyline profile --host gpubox train.py"
        )
    else:
        fill_in(options, script, gpu=True)
        measured = run_capture(script, launch.arguments, options)
    keeps = not (options.replace or options.no_save or options.output_dir)
    profile = (kept_instead(measured) if keeps else None) or measured
    saved, unsaved = None, None
    try:
        if profile is measured:
            saved = save(profile, options)
        else:
            store.save(measured, aside=True)
    except UsageError as error:
        # Show the measurement although it could not be saved.
        unsaved = error
    from skyline.analysis.analyse import analyse
    from skyline.cli.saved_report import keep
    from skyline.report.build import profile_report, whatif_report
    from skyline.report.pages.profile import SavedPlaces, profile_page
    from skyline.report.report_cache import CachedReport

    analysis = analyse(profile)
    found = CachedReport(profile_report(analysis), whatif_report(analysis), changed_sources(profile))
    if saved is not None:
        saved = with_page(saved, profile, found)
    places = SavedPlaces(saved.profile, saved.html) if saved else None
    deliver(
        found.report,
        lambda: profile_page(found.report, found.answers, base=Path.cwd(), saved=places),
        options.json,
    )
    if saved is not None:
        keep(saved.profile, profile, found)
    if unsaved is not None:
        raise unsaved
    return int(ExitCode.OK)


def _on_host(
    host: str,
    script: Path,
    launch: Launch,
    words: tuple[str, ...],
    given: tuple[str, ...],
    options: argparse.Namespace,
) -> Profile:
    """The profile measured on a host. ``given`` are the options of the command on the host."""
    from skyline.hosts.remote_profile import HostRun, profile_on_host

    check_script(script)
    there = HostRun(
        host,
        script,
        Path.cwd(),
        words,
        launch.script,
        given,
        module=launch.module,
        skyline=options.host_skyline or "",
    )
    with terminable():
        return profile_on_host(there, lambda remark: say(f"skyline: {remark}", quiet=options.quiet))
