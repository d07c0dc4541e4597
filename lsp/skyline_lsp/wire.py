"""Our own messages between plain JSON and typed objects."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

import msgspec
from cattrs import Converter
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.protocol import default_converter
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage

from skyline.errors import SkylineError

Params = TypeVar("Params")

Json = dict[str, Any]
"""Params as they arrive. Not ``object``: pygls would pass a handler so annotated the server itself."""

_REQUEST_FAILED = -32803


def converter() -> Converter:
    """The converter of pygls, except that the params of custom messages stay the plain JSON they came as."""
    result = default_converter()
    for kind in (JsonRPCRequestMessage, JsonRPCNotification):
        result.register_structure_hook(kind, _keep_params)
    return result


def receive(params: object, kind: type[Params]) -> Params:
    """The params of a custom request as ``kind``; raises the protocol's own error where they do not fit."""
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise JsonRpcInvalidParams(f"{kind.__name__}: {error}") from error


def send(result: object) -> Any:
    """A dataclass, or several, as plain JSON."""
    return msgspec.to_builtins(result)


def failed(error: SkylineError) -> JsonRpcException:
    """The response for a request that was understood but cannot be answered, next step included."""
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    return JsonRpcException(message, code=_REQUEST_FAILED)


def is_refusal(record: logging.LogRecord) -> bool:
    """Whether a log record is about a request that was answered as it should be: with the reason against it."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, JsonRpcException) and error.code in (_REQUEST_FAILED, JsonRpcInvalidParams.CODE)


def _keep_params(message: dict[str, Any], kind: type[Any]) -> Any:
    message.setdefault("params", None)
    return kind(**message)
