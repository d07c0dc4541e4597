"""JSON-RPC messages that pygls 2 does not handle: every request is answered, whatever it contains.

Without any one of these parts, the fuzzer (``benchmarks/server_fuzzer.py``) or a test fails:

- pygls leaves a request unanswered if its parameters do not match their type, if it comes before ``initialize``, or
  if its body is not a JSON object.
- pygls keeps a future for every notification with an asynchronous handler.
- pygls sends the answer of a handler that runs on a thread from that thread.
- pygls matches a response of the client to a request of the client if the two have the same id.
- pygls fails to handle a cancellation whose id is neither a number nor a string.
- pygls fails at ``shutdown`` while a notification is handled, because it changes the dictionary that it iterates over.
- pygls logs a refused request with a traceback and sends the traceback of a failed one to the client.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    FeatureNotificationError,
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
    JsonRpcServerNotInitialized,
)
from pygls.feature_manager import is_thread_function
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage

from skyline_lsp.frames import parsed
from skyline_lsp.greeting import Greeting
from skyline_lsp.notebooks import Notebooks

logger = logging.getLogger(__name__)

Json = dict[str, Any]
_INTERNAL_ERROR = -32603
_MOST_COMPLAINTS = 3
# pygls would keep its own copies of texts and notebooks.
_OURS_ALONE = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)


class _Futures(dict[Any, Any]):
    """The pending requests. pygls cancels all of them at ``shutdown``, and a cancelled one removes itself at once."""

    def items(self) -> Any:
        return list(super().items())


class Messages(LanguageServerProtocol):
    """The messages of one connection. ``receive`` takes a raw body; the features provide the handlers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.notebooks = Notebooks()
        super().__init__(*arguments, **options)
        self._request_futures = _Futures()
        self.greeting: Greeting | None = None
        """The reader of the first message, which may have answered it. None on a TCP connection."""
        for method in _OURS_ALONE:
            self.fm.builtin_features.pop(method, None)

    def receive(self, body: bytes) -> bool:
        """Handle one message. Returns False if the body is not JSON."""
        try:
            data = parsed(body)
        except (ValueError, RecursionError) as error:
            self._refuse(None, JsonRpcParseError(f"This is not JSON: {_brief(error)}"))
            return False
        if not isinstance(data, dict):
            self._refuse(None, JsonRpcInvalidRequest("A message must be a single JSON object"))
        elif "method" in data:
            self._asked(self.notebooks.incoming(data))
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
        # pygls stores the client's requests together with its own, but result types only for its own requests.
        if msg_id is None or msg_id not in self._result_types:
            logger.debug("ignored a response to an unknown request: %.80r", data.get("id"))
            return
        future = self._request_futures[msg_id]
        try:
            self.handle_message(self.structure_message(data))  # pyright: ignore[reportArgumentType]
        except Exception as error:
            if not future.done():
                reason = _complaints(error.__cause__ or error)
                future.set_exception(JsonRpcInvalidParams(f"the client's response is invalid: {reason}"))
        finally:
            self._over(msg_id, future)
            self._result_types.pop(msg_id, None)

    def _refuse(self, msg_id: int | str | None, error: JsonRpcException) -> None:
        self.greeting = None
        logger.warning("refused a message: %s", error.message)
        # Typed messages leave out a null id, so send plain data.
        told = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": told})

    # Overrides of pygls methods from here on.

    def _send_data(self, data: Any) -> None:
        if not (data and self.notebooks.any_open):
            super()._send_data(data)
            return
        plain = json.loads(json.dumps(data, default=self._serialize_message))
        for message in self.notebooks.outgoing(plain):
            super()._send_data(message)

    def _execute_handler(
        self,
        msg_id: int | str,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        if is_thread_function(handler):
            handler = self._on_a_thread(handler)
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(partial(self._over, msg_id))

    def _on_a_thread(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """The event loop sends the answer, so that two answers do not mix on the wire."""

        async def handled(*arguments: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._server.thread_pool, partial(handler, *arguments))

        return handled

    def _over(self, msg_id: int | str, future: Any) -> None:
        if self._request_futures.get(msg_id) is future:
            del self._request_futures[msg_id]

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        # Nothing checks the type of the id in ``$/cancelRequest``.
        if isinstance(msg_id, int | str):
            super()._handle_cancel_notification(msg_id)

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        greeting, self.greeting = self.greeting, None
        if greeting is not None and error is None and msg_id == greeting.message_id:
            told = json.loads(json.dumps(result, default=self._serialize_message))
            greeting.keep(told)
            if greeting.is_answered(msg_id):
                self._result_types.pop(msg_id, None)
                return
        super()._send_response(msg_id, result, error)

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


def fault(error: BaseException) -> str:
    """Text that the user sees for an internal error. The traceback is in the log."""
    what = f"{type(error).__name__}: {_brief(error)}"
    return f"{what}. This is a fault in Skyline: please report it with the server's log."


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
