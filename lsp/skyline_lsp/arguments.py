"""The arguments of commands: the URI of a script, then an object with options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams

from skyline_lsp import wire

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer


def script_uri(server: SkylineServer, arguments: tuple[Any, ...]) -> str:
    """The first argument. Without arguments, the most recently used script, for clients that cannot pass any."""
    if arguments and isinstance(arguments[0], str):
        return arguments[0]
    if not arguments and server.latest:
        return server.latest
    raise JsonRpcInvalidParams("the first argument must be the URI of a script")


def options(arguments: tuple[Any, ...], kind: type[wire.Params]) -> wire.Params | None:
    """The second argument. None if there is none."""
    given = arguments[1] if len(arguments) > 1 else None
    return None if given is None else wire.receive(given, kind)
