"""``skyline serve``: the report in a browser, kept current."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options, check_script, request_of, running
from skyline.cli.command_line import parser, read_launch, say_misplaced, split_at_script
from skyline.cli.display import Display
from skyline.cli.numbers import port
from skyline.cli.project import fill_in
from skyline.cli.streams import say, tell, write_whole
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    import argparse

    from skyline.browser.following import Measure
    from skyline.capture.process import Starter
    from skyline.launchers.launch import Launch

_EXAMPLES = """\
  skyline serve train.py
  skyline serve --no-browser --port 8080 train.py --epochs 1
  skyline serve --saved train.py              show saved profiles only"""


def make_parser() -> argparse.ArgumentParser:
    return _made()[0]


def _made() -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """The parser and its options."""
    command = parser(
        "serve",
        "[options] (SCRIPT | -m MODULE | LAUNCHER ...) [ARGS...]",
        "Show the report of a script in a browser: time and memory line by line, and the\n"
        "predicted effect of changes. The script is measured if there is no profile, and\n"
        "again when you save it or one of your modules that it imports. Profiles that\n"
        "other programs save are shown as well. Only the first run may reach other\n"
        "machines. Listens on the loopback address only; the page's address, with a\n"
        "secret in it, is printed and opened.",
        _EXAMPLES,
    )
    own = [
        *add_options(command),
        command.add_argument(
            "--port", type=port, default=0, metavar="PORT", help="on 127.0.0.1 (default: a free one)"
        ),
        command.add_argument("--no-browser", action="store_true", help="print the address, and open nothing"),
        command.add_argument("--saved", action="store_true", help="run nothing: show saved profiles"),
        command.add_argument(
            "--network",
            choices=("loopback", "open"),
            default="loopback",
            help="hosts that runs after a save may reach (default: loopback, this machine only)",
        ),
    ]
    command.add_argument("script", metavar="SCRIPT", help="or -m MODULE, as for python")
    return command, own


def run(arguments: Sequence[str]) -> int:
    """Run the command until Ctrl+C."""
    command, own = _made()
    ours, rest = split_at_script(arguments, own)
    options = command.parse_args([*ours, *(["--", rest[0]] if rest else [])])
    script, launch = read_launch(rest, options)
    check_script(script)
    marked = len(ours) + len(rest) < len(arguments)
    say_misplaced(command, script, launch.arguments, marked=marked, quiet=options.quiet)
    fill_in(options, script, gpu=True)
    from skyline.browser.changes import Changes
    from skyline.browser.following import FileFollower
    from skyline.browser.service import LOOPBACK, Service
    from skyline.browser.subject import ShownProfile

    subject = ShownProfile()
    with ExitStack() as stack:
        display, starter = stack.enter_context(running(quiet=True))
        measure = None if options.saved else _measuring(display, starter, script, launch, options)
        try:
            changes = Changes(script.resolve(), write_whole)
            service = Service(subject, script.name, options.port, changes=changes)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"cannot listen on {LOOPBACK}:{options.port}: {error}", hint="Choose another --port."
            ) from error
        service.start()
        stack.callback(service.close)
        follower = FileFollower(script.resolve(), subject, measure)
        follower.start()
        stack.callback(follower.close)
        tell(service.url)
        if "SSH_CONNECTION" in os.environ:
            forwarded = f"ssh -L {service.port}:{LOOPBACK}:{service.port} {socket.gethostname()}"
            say(
                f"skyline: from your own machine: {forwarded}, then open the address there",
                quiet=options.quiet,
            )
        if not options.no_browser:
            import webbrowser

            webbrowser.open(service.url)
        say("skyline: Ctrl+C ends it", quiet=options.quiet)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
    return int(ExitCode.OK)


def _measuring(
    display: Display, starter: Starter, script: Path, launch: Launch, options: argparse.Namespace
) -> Measure:
    """The measurement of the script. It starts from a process with torch imported and is saved for other front ends.

    The user starts the first run by hand; later ones follow a save, and the ``--network`` option applies to them.
    """
    from skyline.capture.session import capture
    from skyline.predict.gpu_profile import gpu_profile
    from skyline.trace.profile import Profile
    from skyline.trace.quieter_run import keep

    first = request_of(script, launch.arguments, options)
    later = replace(first, network=options.network)

    def measure(cancel: threading.Event, early: Callable[[Profile], None], by_hand: bool) -> Profile:
        request = first if by_hand else later
        work = gpu_profile if request.gpu else capture
        profile = work(
            request,
            progress=display.progress,
            output=display.output,
            cancel=cancel,
            on_partial=early,
            starter=starter,
        )
        return keep(profile)

    return measure
