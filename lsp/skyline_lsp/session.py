"""The server with all of its features, and the serving of one client."""

from __future__ import annotations

from pathlib import Path

from skyline.cli.streams import say
from skyline.errors import ExitCode
from skyline.settings.source import SettingsSource
from skyline_lsp import transport
from skyline_lsp.admission import TokenUnusable
from skyline_lsp.features import (
    code_action,
    code_lens,
    commands,
    configuration,
    documents,
    history,
    hover,
    inlay_hint,
    notebooks,
    opening,
    other_hardware,
    rewrite,
    simulate,
    timeline,
    tune,
    verify,
    watched,
)
from skyline_lsp.greeting import Greeting
from skyline_lsp.server import SkylineServer
from skyline_lsp.stdio import Stdio

FEATURES = (
    configuration,
    documents,
    notebooks,
    code_lens,
    inlay_hint,
    hover,
    code_action,
    commands,
    simulate,
    rewrite,
    verify,
    watched,
    other_hardware,
    timeline,
    tune,
    history,
    opening,
)


def create_server(command_line: SettingsSource | None = None) -> SkylineServer:
    """Create a server with all features registered and no client connected.

    Settings of ``command_line`` override those from all other sources.
    """
    server = SkylineServer(command_line)
    for feature in FEATURES:
        feature.register(server)
    return server


def over_stdio(command_line: SettingsSource | None, stdio: Stdio, greeting: Greeting) -> int:
    """Serve one client over standard input and output. Returns the exit code of the process."""
    server = create_server(command_line)
    transport.serve_stdio(server, stdio, greeting)
    return _exit_code(server)


def over_tcp(command_line: SettingsSource | None, port: int, token_file: Path | None) -> int:
    """Serve one client over a loopback port. Returns the exit code of the process."""
    server = create_server(command_line)
    try:
        transport.serve_tcp(server, port, token_file)
    except TokenUnusable as error:
        say(f"skyline lsp: {error}")
        return ExitCode.USAGE
    except (OSError, OverflowError) as error:
        say(f"skyline lsp: cannot listen on 127.0.0.1:{port}: {error}")
        return ExitCode.USAGE
    return _exit_code(server)


def _exit_code(server: SkylineServer) -> int:
    # The protocol requires exit code 1 if `exit` comes without a `shutdown` request before it.
    return 0 if server.shutdown_requested else 1
