"""The HTTP answers: the page, its files, its questions and its news, for clients with the token."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from skyline.browser.subject import Shown, ShownProfile
from skyline.errors import SkylineError
from skyline.report.build import encode
from skyline.report.protocol import QuestionOptions
from skyline.stage_failures import failure
from skyline.whatif.question import Question

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send
from collections.abc import Mapping
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from skyline import units
from skyline.report import html
from skyline.whatif.estimate import Estimate

logger = logging.getLogger(__name__)

_LONGEST_QUESTION = 100_000
_BEAT_S = 10.0
_JSON = "application/json"
_STATIC = {"live.js": "text/javascript", "live.css": "text/css"}
_HEADERS = {
    "Cache-Control": "no-store",
    # The report's styles and the places of its bars are written into the page; no script is, but ours by name.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Answers:
    """An ASGI application about one subject.

    ``hosts`` are the names by which a browser may address it. A request that names another one is refused, so that no
    page from elsewhere can come here by a name of its own.
    """

    def __init__(self, subject: ShownProfile, script: str, token: str, hosts: tuple[str, ...]) -> None:
        self._subject = subject
        self._script = script
        self._token = token
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        name, shown = self._name(request), self._subject.shown
        if name is None:
            return _refusal()
        if request.method == "POST" and name == "simulate" and shown is not None:
            return await self._told(request, shown)
        if request.method != "GET":
            return _refusal()
        if name == "":
            page = await run_in_threadpool(live_page, shown, self._script)
            return _response("text/html", page.encode())
        if name in _STATIC:
            return _response(_STATIC[name], static(name))
        if name == "profile" and shown is not None:
            return _response(_JSON, await run_in_threadpool(encode, shown.report))
        if name == "news":
            return StreamingResponse(self._news(), media_type="text/event-stream", headers=_HEADERS)
        return _refusal()

    def _name(self, request: Request) -> str | None:
        """The path below the token; None for a client without it."""
        path: str = request.scope["path"]
        token, slash, name = path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode())
        return name if known and slash and request.headers.get("host") in self._hosts else None

    async def _told(self, request: Request, shown: Shown) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await _body(request) if kind == _JSON else None
        if body is None:
            return _refusal(HTTPStatus.BAD_REQUEST)
        try:
            asked = msgspec.json.decode(body, type=QuestionOptions)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return _refusal(HTTPStatus.BAD_REQUEST)
        told = await run_in_threadpool(self._answer, asked, shown)
        return _response(_JSON, json.dumps(told).encode())

    def _answer(self, asked: QuestionOptions, shown: Shown) -> object:
        try:
            question = Question.parse(asked.batchSize, asked.whatifs)
            return answer(self._subject.estimate(question), shown)
        except SkylineError as error:
            text = f"{error.message}. {error.hint}".strip()
        except Exception as error:
            logger.info("a question could not be answered", exc_info=True)
            text = f"{failure(error)}."
        return {"text": text, "applicable": False}

    async def _news(self) -> AsyncIterator[str]:
        """As server-sent events, until the page or the server goes."""
        subject, known = self._subject, None
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        with subject.followed(wake):
            while not subject.closed:
                changed.clear()
                news = subject.news
                if news != known:
                    known = news
                    yield f"data: {msgspec.json.encode(news).decode()}\n\n"
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), _BEAT_S)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"


async def _body(request: Request) -> bytes | None:
    """None where it is longer than any question."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_QUESTION:
            return None
    return body


def _response(kind: str, body: bytes) -> Response:
    return Response(body, media_type=kind, headers=_HEADERS)


def _refusal(status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Response:
    # The body is not read: it must not be taken for the next request.
    headers = {**_HEADERS, "Connection": "close"}
    return Response(f"{status.phrase}\n", status, headers, "text/plain")


_NEWS = "<main>"


def live_page(shown: Shown | None, script: str) -> str:
    """The report with a panel to ask from above it; a page that waits while there is no profile."""
    environment = Environment(
        loader=PackageLoader("skyline.browser", "static"), autoescape=True, undefined=StrictUndefined
    )
    if shown is None:
        return environment.get_template("waiting.html").render(script=script)
    report = shown.report
    panel = environment.get_template("panel.html").render(
        number=shown.number,
        batch_size=report.batch_size.value,
        whatifs=[
            one for one in shown.whatifs.estimates if one.applicable and one.name not in ("batch_size", "gpu")
        ],
    )
    page = html.render(report, shown.whatifs, shown.analysis.profile.sources)
    page = page.replace("</head>", '<link rel="stylesheet" href="live.css"></head>', 1)
    page = page.replace(_NEWS, _NEWS + panel, 1)
    return page.replace("</body>", '<script src="live.js"></script></body>', 1)


def static(name: str) -> bytes:
    """A file that the page loads from here."""
    return files("skyline.browser").joinpath("static", name).read_bytes()


def answer(found: Estimate, shown: Shown) -> Mapping[str, object]:
    """A prediction in words, for the panel."""
    if not found.applicable:
        return {"text": f"Does not apply. {found.reason or ''}", "applicable": False}
    now = shown.whatifs.baseline
    delta = units.format_ms_delta(found.iteration_ms.value - now.iteration_ms.value)
    parts = [f"{units.format_ms_interval(found.iteration_ms)} per iteration ({delta})"]
    if found.throughput is not None:
        parts.append(units.format_throughput_interval(found.throughput))
    parts.append(f"{units.format_bytes(found.peak.value)} at the peak")
    return {
        "text": "Predicted: " + " · ".join(parts),
        "applicable": True,
        "iteration_ms": found.iteration_ms.value,
        "assumptions": list(found.assumptions),
    }
