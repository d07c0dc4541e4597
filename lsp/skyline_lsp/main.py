"""Start the language server: on stdio for an editor, on a loopback port for a debugger."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from skyline.cli.streams import say
from skyline.errors import ExitCode
from skyline_lsp.greeting import Greeting, default_folder
from skyline_lsp.stdio import reserve_stdio


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="skyline lsp",
        description="The Skyline language server: shows the cost of a training script in any editor.",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="communicate over standard input and output (the default)"
    )
    parser.add_argument(
        "--tcp",
        type=int,
        metavar="PORT",
        help="serve one client on 127.0.0.1:PORT instead (0: any free port)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="with --tcp: the file with the token that the client must send in initializationOptions.token; "
        "created if missing (default: a new file, whose path is printed)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a setting of the editor, for example --set profile.steps=20",
    )
    parser.add_argument("--log-file", metavar="FILE", help="write the log to FILE instead of standard error")
    parser.add_argument("-v", "--verbose", action="store_true", help="also log every message")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one client until it disconnects. Returns the exit code of the process."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.token_file and options.tcp is None:
        parser.error("--token-file needs --tcp: standard input and output need no token")

    try:
        _log_to(options.log_file, verbose=options.verbose)
    except OSError as error:
        say(f"skyline lsp: cannot write the log: {error}")
        return ExitCode.USAGE

    command_line = None
    if options.set:
        from skyline.settings.source import from_words

        command_line = from_words(options.set)
    # Dragging a bar requests an estimate every few milliseconds, possibly while a worker thread analyses a
    # profile. With the default interval of 5 ms, waiting for the GIL would take longer than the answer itself.
    sys.setswitchinterval(0.0005)
    # Before `initialize` there is nothing to clean up, and the thread that reads standard input would block a
    # graceful exit.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if options.tcp is None:
        stdio = reserve_stdio()
        # It answers while the server is imported, which takes most of a second.
        greeting = Greeting(stdio.source, stdio.writer, default_folder())
        from skyline_lsp.session import over_stdio

        return over_stdio(command_line, stdio, greeting)
    from skyline_lsp.session import over_tcp

    return over_tcp(command_line, options.tcp, Path(options.token_file) if options.token_file else None)


def _log_to(file: str | None, *, verbose: bool) -> None:
    handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[handler],
        force=True,
    )
    if not verbose:
        # pygls logs every message in full, and a traceback for every request that is answered with an error.
        logging.getLogger("pygls").setLevel(logging.WARNING)
        handler.addFilter(lambda record: not _is_refusal(record))


def _is_refusal(record: logging.LogRecord) -> bool:
    """True if a record is about a request that was refused with a reason, as intended."""
    if not record.exc_info:
        return False
    from skyline_lsp import wire

    return wire.is_refusal(record)


if __name__ == "__main__":
    sys.exit(main())
