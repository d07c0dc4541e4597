"""Starts the terminal UI on a training script."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.capture_options import check_script
from skyline.cli.command_line import parse_after_names
from skyline.cli.streams import say, tell
from skyline.errors import ExitCode
from skyline_tui.first_frame import first_frame

if TYPE_CHECKING:
    from skyline_tui.app import SkylineApp
    from skyline_tui.messages import Post


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="skyline tui",
        description="See where a training script's time and memory go, drag its throughput or its memory, "
        "and have the code rewritten to match.",
        epilog="Example: skyline tui train.py --epochs 1",
    )
    parser.add_argument(
        "script",
        nargs="?",
        metavar="SCRIPT",
        help="the training script (asked for if omitted), a saved profile, or a PyTorch profiler trace",
    )
    parser.add_argument("--interpreter", metavar="PYTHON", help="the Python that runs the script")
    parser.add_argument(
        "--staged", action="store_true", help="rewrite the file on apply only, not on every release or toggle"
    )
    parser.add_argument("--theme", metavar="NAME", help="colours: skyline, or any of Textual's themes")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the user quits; returns the exit code of the process."""
    words = sys.argv[1:] if argv is None else argv
    options, script_arguments = parse_after_names(words, make_parser())

    if options.script is not None:
        check_script(Path(options.script))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "Use `skyline profile` for output that can be piped."
        say(f"skyline tui: this needs a terminal. {hint}")
        return ExitCode.USAGE
    if not sys.stderr.isatty():
        # Textual draws on stderr: the screen would stay empty.
        tell("skyline tui: this draws on stderr, which is redirected. Remove the redirection.")
        return ExitCode.USAGE

    # A program inherits an ignored signal from its parent and would then outlive its terminal.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    if options.script is None:
        from skyline_tui.pick import pick_script

        script = pick_script(Path.cwd())
        if script is None:
            return ExitCode.OK
    else:
        script = Path(options.script)
    script = script.resolve()
    run = {"args": list(script_arguments or ())}
    if options.launcher:
        # The launcher itself puts its own arguments before the script's.
        run = {"args": run["args"][len(options.launch.first) :], "launcher": list(options.launcher)}
    settings: dict[str, object] = {"profile": run}
    if options.interpreter:
        settings["interpreter"] = options.interpreter
    set_frame_rate(os.environ)
    with first_frame(script, sys.stdout):
        app = _interface(script, settings, theme=options.theme, staged=options.staged)
    app.run()
    return app.return_code or ExitCode.OK


def _interface(
    script: Path, settings: Mapping[str, object], *, theme: str | None, staged: bool
) -> SkylineApp:
    """The application with its own server. ``theme`` and ``staged`` override the user's preferences."""
    # Importing the interface takes most of a second.
    from skyline_tui.app import SkylineApp
    from skyline_tui.client import Server
    from skyline_tui.live_consent import LiveConsent
    from skyline_tui.preferences import read_preferences
    from skyline_tui.session import SavedSession, ServerSession

    def connect(post: Post) -> ServerSession:
        server = Server(post, dict(settings))
        if script.suffix in {".json", ".gz"}:
            return SavedSession(script, server, post)
        return ServerSession(script, server)

    preferences = read_preferences()
    if theme:
        preferences = replace(preferences, theme=theme)
    live = not staged and preferences.live is not False
    # A user who has set live mode in the preferences has agreed to it.
    consent = None if preferences.live else LiveConsent()
    return SkylineApp(script, connect, live=live, preferences=preferences, consent=consent)


FRAMES_PER_S = 240
"""Four times Textual's default: at 60 Hz a drag waits up to 16 ms for its frame before any work is done."""


def set_frame_rate(environment: MutableMapping[str, str]) -> None:
    """Set this frame rate unless the user has set another one; call before the import of Textual, which reads it."""
    environment.setdefault("TEXTUAL_FPS", str(FRAMES_PER_S))


if __name__ == "__main__":
    sys.exit(main())
