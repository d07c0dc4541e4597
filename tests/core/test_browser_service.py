"""Who may ask the page's server for anything, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import struct
import urllib.request
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import msgspec
import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.browser.service import HalfOpen, Service
from skyline.browser.subject import ShownProfile
from skyline.report.schema import EstimateReport
from skyline.trace.profile import Profile
from skyline.whatif.question import Question

MOST = 24
"""Half-open connections that the service keeps here."""


@pytest.fixture
def service(profile: Profile) -> Iterator[Service]:
    subject = ShownProfile()
    subject.show(profile)
    running = Service(subject, "train.py", half_open=HalfOpen(most=MOST))
    running.start()
    yield running
    running.close()


def ask(
    service: Service, path: str, body: object = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    sent = body if body is None or isinstance(body, str) else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, sent, headers)
    response = connection.getresponse()
    found = response.status, response.headers, response.read().decode()
    connection.close()
    return found


JSON = {"Content-Type": "application/json"}


def test_it_listens_on_the_loopback_address_with_a_token_of_its_own(
    service: Service, profile: Profile
) -> None:
    assert service.url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", service.port), 5)
    other = Service(ShownProfile(), "train.py")
    try:
        assert len(service.token) >= 32
        assert service.token != other.token
    finally:
        other.close()


def test_the_page_runs_no_script_but_ours(service: Service) -> None:
    status, headers, page = ask(service, f"/{service.token}/")
    assert status == 200
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert page.count("<script src=") == 3
    for name in ("tables.js", "timeline.js", "served-page.js", "live.css"):
        assert name in page
        assert ask(service, f"/{service.token}/{name}")[0] == 200
    assert 'id="panel"' in page
    assert json.loads(ask(service, f"/{service.token}/profile")[2])["schema"] == "skyline.profile/1"


def test_the_timeline_is_a_trace_for_perfetto(service: Service) -> None:
    with urllib.request.urlopen(f"{service.url}timeline", timeout=10) as response:
        assert response.headers["Content-Type"] == "application/gzip"
        trace = json.loads(gzip.decompress(response.read()))
    processes = {one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "process_name"}
    assert len(processes) == 2, "measured and simulated"


@pytest.mark.parametrize(
    "path", ["/", "/served-page.js", "/x/", "/{token}", "/{token}x/", "/{token}/../", "/{token}/other"]
)
def test_nobody_else_is_answered(service: Service, path: str) -> None:
    assert ask(service, path.replace("{token}", service.token))[0] == 404


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1:80@evil.example", "localhost:x"],
)
def test_a_page_under_another_name_is_not_answered(service: Service, host: str) -> None:
    assert ask(service, f"/{service.token}/", Host=host)[0] == 404
    for here in (f"localhost:{service.port}", "127.0.0.1:9000"):
        assert ask(service, f"/{service.token}/", Host=here)[0] == 200, "also through a forwarded port"


def test_questions_are_answered_as_the_language_server_does(service: Service, profile: Profile) -> None:
    path = f"/{service.token}/simulate"
    status, _, text = ask(service, path, {"batchSize": 64, "whatifs": []}, **JSON)
    assert status == 200
    found = msgspec.json.decode(text, type=EstimateReport)
    assert found == estimate(analyse(profile), Question.parse(64, ()))
    refused = json.loads(ask(service, path, {"whatifs": ["nonsense"]}, **JSON)[2])
    assert "nonsense" in refused["text"]


def test_the_curve_and_the_best_combination_are_predicted_on_request(service: Service) -> None:
    question = {"batchSize": 64, "whatifs": ["fused_optimizer"]}
    found = [
        json.loads(ask(service, f"/{service.token}/{name}", question, **JSON)[2])
        for name in ("simulate", "curve")
    ]
    assert [bool(one["curve"]) for one in found] == [False, True]
    assert found[0]["iteration_ms"] == found[1]["iteration_ms"]
    best = json.loads(ask(service, f"/{service.token}/best", {}, **JSON)[2])
    assert best["estimate"]["name"] or best["reason"]


def test_what_is_no_question_is_refused(service: Service) -> None:
    path = f"/{service.token}/simulate"
    assert ask(service, path, {"batchSize": "many"}, **JSON)[0] == 400
    assert ask(service, path, [], **JSON)[0] == 400
    assert ask(service, path, {"whatifs": []})[0] == 400, "a form of another page could send that"
    assert ask(service, "/wrong/simulate", {}, **JSON)[0] == 404
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        # At once: an answer to a head alone closes the connection, and a body that comes after it resets the answer.
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{{}}".encode()
        )
        assert b" 400 " in connection.recv(100)


@pytest.mark.parametrize("size", ["1" + "0" * 30, "1" + "0" * 400, "-1", "0"], ids="abcd")
def test_a_batch_size_that_none_can_be_is_answered_in_words(service: Service, size: str) -> None:
    status, _, text = ask(service, f"/{service.token}/simulate", f'{{"batchSize": {size}}}', **JSON)
    assert status == 200
    assert "out of range" in json.loads(text)["text"]


@pytest.mark.parametrize(
    "body",
    ['{"x":' * 30_000, "[" * 90_000, "x", "", '{"batchSize": 1e400}', "{" + " " * 100_001],
    ids="abcdef",
)
def test_a_body_that_is_no_question_is_refused(service: Service, body: str) -> None:
    assert ask(service, f"/{service.token}/simulate", body, **JSON)[0] == 400
    assert ask(service, f"/{service.token}/profile")[0] == 200


def test_other_methods_and_protocols_are_refused(service: Service) -> None:
    assert said_to(service, b"DELETE /%s/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert said_to(service, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    upgrade = b"GET /%s/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert b" 101 " not in said_to(service, upgrade)


def said_to(service: Service, request: bytes) -> bytes:
    """The first part of the answer."""
    text = request % (service.token.encode(), service.port) if b"%" in request else request
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        connection.sendall(text)
        return connection.recv(1 << 16)


def test_slow_clients_keep_nobody_out_and_are_let_go(service: Service) -> None:
    """None of them ever sends a whole request; of more than are kept the oldest are closed."""
    half = b"GET /%s/ HTTP/1.1\r\nHost: 127" % service.token.encode()
    body = b"POST /%s/simulate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
    body = body % (service.token.encode(), service.port) + b"Content-Length: 100\r\n\r\n{"
    slow = [socket.create_connection(("127.0.0.1", service.port), 10) for _ in range(3 * MOST)]
    try:
        for number, connection in enumerate(slow):
            with contextlib.suppress(ConnectionError):
                connection.sendall((b"", half, body)[number % 3])
        assert ask(service, f"/{service.token}/")[0] == 200
        assert ask(service, f"/{service.token}/simulate", {"batchSize": 64}, **JSON)[0] == 200
        assert len(service.half_open) <= MOST
        slow[0].settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert slow[0].recv(1) == b""
    finally:
        for connection in slow:
            connection.close()


async def test_bytes_that_trickle_in_do_not_renew_the_time() -> None:
    closed: list[str] = []

    class Transport:
        def __init__(self, name: str) -> None:
            self.name = name

        def abort(self) -> None:
            closed.append(self.name)

    class Connection:
        def __init__(self, name: str) -> None:
            self.transport = Transport(name)

    kept = HalfOpen(longest_s=0.05, most=2)
    first, second, third, answered = map(Connection, ("first", "second", "third", "answered"))
    kept.wait_for(cast(Any, answered))
    kept.let_go(cast(Any, answered))
    kept.wait_for(cast(Any, first))
    kept.wait_for(cast(Any, second))
    kept.wait_for(cast(Any, third))
    assert closed == ["first"], "the one that waited longest makes room"
    while len(kept):
        kept.wait_for(cast(Any, second)) if len(kept) == 2 else None
        await asyncio.sleep(0.005)
    assert closed == ["first", "second", "third"]


def test_news_wait_for_something_new(service: Service, profile: Profile) -> None:
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        request = f"GET /{service.token}/news HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n\r\n"
        connection.sendall(request.encode())
        stream = connection.makefile("rb")
        assert next_news(stream) == {"number": 1, "status": "", "measuring": False}
        service.subject.say("measuring", measuring=True)
        assert next_news(stream) == {"number": 1, "status": "measuring", "measuring": True}
        service.subject.say("measuring", measuring=True)
        service.subject.show(profile)
        assert next_news(stream) == {"number": 2, "status": "", "measuring": False}
        service.close()
        assert stream.read().endswith(b"0\r\n\r\n"), "it ends, and does not break off"


def next_news(stream: BinaryIO) -> object:
    while not (line := stream.readline()).startswith(b"data: "):
        assert line
    return json.loads(line.removeprefix(b"data: "))


def test_a_page_that_goes_away_leaves_nothing_behind(
    service: Service, capfd: pytest.CaptureFixture[str]
) -> None:
    for path in ("", "news", "profile"):
        with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            request = f"GET /{service.token}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\n\r\n"
            connection.sendall(request.encode())
    assert ask(service, f"/{service.token}/profile")[0] == 200
    service.close()
    assert capfd.readouterr().err == ""
