"""Converts Skyline's own messages between plain JSON and typed objects."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from cattrs import Converter
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.protocol import default_converter
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage

from skyline.errors import SkylineError

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer


Params = TypeVar("Params")

Json = dict[str, Any]
"""Params as received. Not ``object``: pygls would pass the server itself to a handler with that annotation."""

_REQUEST_FAILED = -32803


def script_uri(server: SkylineServer, arguments: tuple[Any, ...]) -> str:
    """The first argument. Without arguments, the most recently used script, for clients that cannot pass any."""
    if arguments and isinstance(arguments[0], str):
        return arguments[0]
    if not arguments and server.latest:
        return server.latest
    raise JsonRpcInvalidParams("the first argument must be the URI of a script")


def options(arguments: tuple[Any, ...], kind: type[Params]) -> Params | None:
    """The second argument. None if there is none."""
    given = arguments[1] if len(arguments) > 1 else None
    return None if given is None else receive(given, kind)


def converter() -> Converter:
    """The converter of pygls, except that the params of custom messages stay plain JSON."""
    result = default_converter()
    for kind in (JsonRPCRequestMessage, JsonRPCNotification):
        result.register_structure_hook(kind, _keep_params)
    return result


def receive(params: object, kind: type[Params]) -> Params:
    """The params of a custom request as ``kind``. Raises JsonRpcInvalidParams if they do not match."""
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise JsonRpcInvalidParams(f"{kind.__name__}: {error}") from error


def answers(kind: type[Params]) -> Callable[[Callable[[Params], Any]], Callable[[Json], Any]]:
    """Turn a handler with typed params and result into one of plain JSON. A SkylineError becomes an error response."""

    def decorate(handler: Callable[[Params], Any]) -> Callable[[Json], Any]:
        async def later(params: Json) -> Any:
            with refusing():
                return send(await handler(receive(params, kind)))

        def now(params: Json) -> Any:
            with refusing():
                return send(handler(receive(params, kind)))

        return later if inspect.iscoroutinefunction(handler) else now

    return decorate


@contextmanager
def refusing() -> Iterator[None]:
    """A context in which a SkylineError becomes the error response."""
    try:
        yield
    except SkylineError as error:
        raise failed(error) from error


def send(result: object) -> Any:
    """One or several dataclasses as plain JSON."""
    return msgspec.to_builtins(result)


def failed(error: SkylineError) -> JsonRpcException:
    """The error response to a valid request that cannot be answered, including the next step."""
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    return JsonRpcException(message, code=_REQUEST_FAILED)


def is_refusal(record: logging.LogRecord) -> bool:
    """True if a log record is about a request that was refused with a reason, as intended."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, JsonRpcException) and error.code in (_REQUEST_FAILED, JsonRpcInvalidParams.CODE)


def _keep_params(message: dict[str, Any], kind: type[Any]) -> Any:
    message.setdefault("params", None)
    return kind(**message)
