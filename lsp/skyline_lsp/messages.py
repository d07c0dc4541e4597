"""JSON-RPC messages in both directions: every request is answered, and finished requests are forgotten.

Works around three defects of pygls 2. It does not answer a request whose parameters do not match their type. It
keeps a future for every notification received. It confuses requests of the client with its own if their ids are
equal.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import uuid
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    FeatureNotificationError,
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
    JsonRpcServerNotInitialized,
)
from pygls.feature_manager import is_thread_function
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage, JsonRPCResponseMessage

logger = logging.getLogger(__name__)

Json = dict[str, Any]
_INTERNAL_ERROR = -32603
_MOST_COMPLAINTS = 3
# pygls would keep its own copies of texts, and of notebooks, which Skyline does not support.
_OURS_ALONE = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)


class Messages(LanguageServerProtocol):
    """The messages of one connection. ``receive`` takes a raw body; the features provide the handlers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # A client may use an id for two pending requests. A cancellation then applies to both.
        self._incoming: dict[int | str, list[Any]] = {}
        for method in _OURS_ALONE:
            self.fm.builtin_features.pop(method, None)

    def receive(self, body: bytes) -> bool:
        """Handle one message. Returns False if the body is not JSON."""
        try:
            data = json.loads(body, parse_constant=_finite, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            self._refuse(None, JsonRpcParseError(f"This is not JSON: {_brief(error)}"))
            return False
        if not isinstance(data, dict):
            self._refuse(None, JsonRpcInvalidRequest("A message must be a single JSON object"))
        elif "method" in data:
            self._asked(data)
        elif "id" in data and ("result" in data or "error" in data):
            self._answered(data)
        else:
            self._refuse(
                _id_of(data),
                JsonRpcInvalidRequest("The message is not a request, a notification or a response"),
            )
        return True

    def _asked(self, data: Json) -> None:
        method, is_request, msg_id = data["method"], "id" in data, _id_of(data)
        try:
            if data.get("jsonrpc") != self.VERSION or not isinstance(method, str):
                raise JsonRpcInvalidRequest('A message needs "jsonrpc": "2.0" and a method name')
            if is_request and msg_id is None:
                raise JsonRpcInvalidRequest("The id of a request must be an integer or a string")
            self._in_order(method)
            message = self._structured(data, method, is_request)
        except JsonRpcException as error:
            if is_request:
                self._refuse(msg_id, error)
            else:
                logger.warning("ignored the notification %.80r: %s", method, error.message)
            return
        try:
            self.handle_message(message)
        except Exception as error:
            # Exceptions of handlers do not arrive here. This is a bug of this module: keep the connection.
            logger.exception("%.80r could not be handled", method)
            self._server._report_server_error(RuntimeError(fault(error)), FeatureNotificationError)

    def _in_order(self, method: str) -> None:
        """Raise if the message is not allowed now: before ``initialize`` or after ``shutdown``."""
        if method == types.EXIT:
            return
        if self._shutdown:
            raise JsonRpcInvalidRequest("The server is shutting down")
        if (self._workspace is None) != (method == types.INITIALIZE):
            if method == types.INITIALIZE:
                raise JsonRpcInvalidRequest("The server is initialized already")
            raise JsonRpcServerNotInitialized(f"{types.INITIALIZE} must come first")

    def _structured(self, data: Json, method: str, is_request: bool) -> Any:
        if not isinstance(data.get("params"), dict | list | None):
            raise JsonRpcInvalidParams("params is an object or a list")
        plain = JsonRPCRequestMessage if is_request else JsonRPCNotification
        known = self.get_message_type(method)
        # Reject a request sent as a notification and a notification sent as a request.
        if known is not None and ("id" in known.__annotations__) != is_request:
            raise JsonRpcInvalidRequest(
                f"{method} is a {'notification' if is_request else 'request'}: "
                f"it has {'no' if is_request else 'an'} id"
            )
        keys = ("id", "method", "jsonrpc", "params") if is_request else ("method", "jsonrpc", "params")
        fields = {key: data[key] for key in keys if key in data}
        try:
            return self._converter.structure(fields, known or plain)
        except Exception as error:
            raise JsonRpcInvalidParams(f"{method}: {_complaints(error)}") from None

    def _answered(self, data: Json) -> None:
        msg_id = _id_of(data)
        future = self._request_futures.pop(msg_id, None) if msg_id is not None else None
        kind = self._result_types.pop(msg_id, None) if msg_id is not None else None
        if future is None or future.done():
            logger.debug("ignored a response to an unknown request: %.80r", data.get("id"))
            return
        result: Any = None
        error: Exception | None = None
        try:
            if "error" in data:
                told = self._converter.structure(data["error"], types.ResponseError)
                error = JsonRpcException.from_error(told)
            else:
                fields = {key: data[key] for key in ("id", "jsonrpc", "result") if key in data}
                fields.setdefault("jsonrpc", self.VERSION)
                result = self._converter.structure(fields, kind or JsonRPCResponseMessage).result
        except Exception as reason:
            error = JsonRpcInvalidParams(f"the client's response is invalid: {_complaints(reason)}")
        try:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        except InvalidStateError:
            logger.debug("the request %r was cancelled before its response came", msg_id)

    def _refuse(self, msg_id: int | str | None, error: JsonRpcException) -> None:
        logger.warning("refused a message: %s", error.message)
        # Typed messages leave out a null id, so send plain data.
        told = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": told})

    # Overrides of pygls methods from here on.

    def _execute_handler(
        self,
        msg_id: int | str,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        args, kwargs = args or (), kwargs or {}
        future: Any
        if asyncio.iscoroutinefunction(handler):
            future = asyncio.ensure_future(handler(*args, **kwargs))
        elif is_thread_function(handler):
            future = asyncio.get_running_loop().run_in_executor(
                self._server.thread_pool, partial(handler, *args, **kwargs)
            )
        else:
            future = Future()
        self._incoming.setdefault(msg_id, []).append(future)
        future.add_done_callback(partial(self._over, msg_id))
        future.add_done_callback(callback)
        if not isinstance(future, Future):
            return
        try:
            if inspect.isgeneratorfunction(handler):
                self._run_generator(None, gen=handler(*args, **kwargs), result_future=future)
            else:
                future.set_result(handler(*args, **kwargs))
        except InvalidStateError:
            logger.debug("cancelled while it was handled: %r", msg_id)
        except Exception as error:
            future.set_exception(error)

    def _over(self, msg_id: int | str, future: Any) -> None:
        bearers = self._incoming[msg_id]
        bearers.remove(future)
        if not bearers:
            del self._incoming[msg_id]
        if not future.cancelled():
            # Retrieve the exception: nothing else does if the request was cancelled.
            future.exception()

    def _run_generator(
        self, future: Any, *, gen: Generator[Any, Any, Any], result_future: Future[Any]
    ) -> None:
        try:
            super()._run_generator(future, gen=gen, result_future=result_future)
        except InvalidStateError:
            logger.debug("cancelled while it was handled")

    def _send_handler_result(self, future: Any, *, msg_id: int | str) -> None:
        if future.cancelled():
            error = JsonRpcRequestCancelled(f"The request {msg_id} was cancelled")
            self._send_response(msg_id, error=error.to_response_error())
            return
        error = future.exception()
        if error is None:
            self._send_response(msg_id, result=future.result())
        elif isinstance(error, JsonRpcException):
            logger.debug("refused the request %r: %s", msg_id, error.message)
            self._send_response(msg_id, error=error.to_response_error())
        elif isinstance(error, asyncio.CancelledError):
            gone = JsonRpcRequestCancelled(f"The request {msg_id} was cancelled")
            self._send_response(msg_id, error=gone.to_response_error())
        else:
            logger.error("the request %r failed", msg_id, exc_info=error)
            told = types.ResponseError(_INTERNAL_ERROR, fault(error))
            self._send_response(msg_id, error=told)

    def _check_handler_result(self, future: Any) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcException):
            logger.warning("ignored a notification: %s", error.message)
        elif error is not None:
            logger.error("a notification could not be handled", exc_info=error)
            self._server._report_server_error(RuntimeError(fault(error)), FeatureNotificationError)

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        for future in list(self._incoming.get(msg_id, ())) if isinstance(msg_id, int | str) else ():
            future.cancel()

    def _handle_request(self, msg_id: int | str, method_name: str, params: Any) -> None:
        try:
            handler = self._get_handler(method_name)
        except JsonRpcMethodNotFound as error:
            self._refuse(msg_id, error)
            return
        self._ctx_msg_id.set(msg_id)
        done = partial(self._send_handler_result, msg_id=msg_id)
        self._execute_handler(msg_id, handler, done, (params,))

    def _handle_notification(self, method_name: str, params: Any) -> None:
        if method_name == types.CANCEL_REQUEST:
            self._handle_cancel_notification(params.id)
            return
        try:
            handler = self._get_handler(method_name)
        except JsonRpcMethodNotFound:
            # The protocol allows ignoring `$/` notifications; others belong to newer versions of the protocol.
            logger.debug("ignored the notification %.80r", method_name)
            return
        self._execute_handler(str(uuid.uuid4()), handler, self._check_handler_result, (params,))

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """Run the shutdown handler, then cancel all other pending requests in both directions."""
        handler = self.fm.features.get(types.SHUTDOWN)
        if handler is not None:
            yield handler, args, None
        own = self.msg_id
        waiting = [
            future for msg_id, bearers in self._incoming.items() if msg_id != own for future in bearers
        ]
        for future in (*waiting, *self._request_futures.values()):
            # A running synchronous future belongs to the shutdown request itself.
            if isinstance(future, asyncio.Future) or not future.running():
                future.cancel()
        self._shutdown = True


def fault(error: BaseException) -> str:
    """Text that the user sees for an internal error. The traceback is in the log."""
    what = f"{type(error).__name__}: {_brief(error)}"
    return f"{what}. This is a fault in Skyline: please report it with the server's log."


def _finite(number: str) -> float:
    """Parse a number. Raises ValueError for ``NaN`` and ``1e999``: neither can be sent back as JSON."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:20]} is not a finite number")
    return value


def _id_of(data: Json) -> int | str | None:
    msg_id = data.get("id")
    return msg_id if isinstance(msg_id, int | str) and not isinstance(msg_id, bool) else None


def _complaints(error: BaseException) -> str:
    try:
        found = transform_error(error, path="")  # pyright: ignore[reportArgumentType]
    except Exception:
        found = [str(error)]
    more = f"; {len(found) - _MOST_COMPLAINTS} more" if len(found) > _MOST_COMPLAINTS else ""
    return _brief("; ".join(found[:_MOST_COMPLAINTS])) + more


def _brief(words: object) -> str:
    text = str(words)
    return text if len(text) <= 300 else text[:299] + "…"
