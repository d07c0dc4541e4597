"""The answer to ``initialize`` is kept, and sent before the server is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skyline_lsp.frames import Frames
from skyline_lsp.greeting import Greeting, key_of

# The answer that is kept is shared.
pytestmark = pytest.mark.xdist_group("greeting")

WAIT_S = 60
PARAMS: dict[str, Any] = {
    "processId": None,
    "rootUri": "file:///project",
    "capabilities": {"general": {"positionEncodings": ["utf-8"]}},
}


def framed(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def initialize(params: object = PARAMS) -> bytes:
    return framed({"id": 1, "method": "initialize", "params": params})


def session(cache: Path, params: object = PARAMS) -> list[dict[str, Any]]:
    """All that a server sends in a session of ``initialize`` and ``shutdown``."""
    sent = initialize(params) + framed({"id": 2, "method": "shutdown"}) + framed({"method": "exit"})
    done = subprocess.run(
        [sys.executable, "-m", "skyline_lsp"],
        input=sent,
        capture_output=True,
        check=False,
        timeout=WAIT_S,
        env=dict(os.environ, XDG_CACHE_HOME=str(cache)),
    )
    return [json.loads(body) for body in Frames().feed(done.stdout)]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which a session left its answer; each test takes a copy."""
    cache = tmp_path_factory.mktemp("answered")
    told = session(cache)
    assert json.loads(kept(cache)[0].read_text()) == told[0]["result"]
    return cache


@pytest.fixture
def cache(answered: Path, tmp_path: Path) -> Path:
    return shutil.copytree(answered, tmp_path / "cache")


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "skyline" / "initialize").iterdir())


def test_the_second_session_gets_the_same_answer_once(cache: Path) -> None:
    first = json.loads(kept(cache)[0].read_text())
    second = session(cache, {**PARAMS, "processId": os.getpid(), "rootUri": "file:///other"})
    assert [message["id"] for message in second] == [1, 2]
    assert second[0]["result"] == first
    assert first["capabilities"]["positionEncoding"] == "utf-8"
    assert len(kept(cache)) == 1


def test_a_kept_answer_is_sent_as_it_is_and_then_replaced_by_the_server(cache: Path) -> None:
    (file,) = kept(cache)
    true = json.loads(file.read_text())
    file.write_text(json.dumps({"capabilities": {"hoverProvider": False}}))
    assert session(cache)[0]["result"] == {"capabilities": {"hoverProvider": False}}
    assert session(cache)[0]["result"] == true


def test_a_damaged_answer_is_replaced_by_the_server(cache: Path) -> None:
    (file,) = kept(cache)
    true = json.loads(file.read_text())
    file.write_text("{")
    assert session(cache)[0]["result"] == true
    assert json.loads(file.read_text()) == true


def test_other_capabilities_have_an_answer_of_their_own(cache: Path) -> None:
    other = session(cache, {**PARAMS, "capabilities": {}})
    assert other[0]["result"]["capabilities"]["positionEncoding"] == "utf-16"
    assert len(kept(cache)) == 2


def test_an_invalid_request_is_refused_and_nothing_kept(cache: Path) -> None:
    assert "error" in session(cache, {**PARAMS, "capabilities": 5})[0]
    assert len(kept(cache)) == 1


def greeted(folder: Path, sent: bytes) -> tuple[Greeting, bytes, bytes]:
    """A greeting after a client has sent something and gone; what it read and what it answered."""
    outgoing, client = os.pipe()
    answers, writer = os.pipe()
    os.write(client, sent)
    os.close(client)
    with os.fdopen(writer, "wb") as stream:
        greeting = Greeting(outgoing, stream, folder)
        received = greeting.wait()
    with os.fdopen(answers, "rb") as stream:
        return greeting, received, stream.read()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"capabilities": 5}'])
def test_a_damaged_answer_is_not_sent(tmp_path: Path, content: str) -> None:
    (tmp_path / key_of(PARAMS)).write_text(content)
    greeting, received, answer = greeted(tmp_path, initialize())
    assert (received, answer, greeting.answer) == (initialize(), b"", None)


def test_all_bytes_that_were_read_are_passed_on(tmp_path: Path) -> None:
    more = framed({"method": "initialized", "params": {}})
    for sent in (
        initialize() + more,
        b"no header\r\n" + initialize() + more,
        b"",
        b"Content-Length: 9\r\n\r\n{",
    ):
        greeting, received, answer = greeted(tmp_path, sent)
        assert (received, answer, greeting.answer) == (sent, b"", None)


def test_only_an_initialize_of_the_usual_form_has_a_name(tmp_path: Path) -> None:
    usual = greeted(tmp_path, initialize())[0]
    assert usual.key == key_of(PARAMS)
    for unusual in (
        framed({"id": True, "method": "initialize", "params": PARAMS}),
        framed({"method": "initialize", "params": PARAMS}),
        framed({"id": 1, "method": "shutdown", "params": PARAMS}),
        initialize([]),
        initialize({**PARAMS, "workspaceFolders": [{"uri": "file:///a"}]}),
        initialize({**PARAMS, "processId": "1"}),
    ):
        assert greeted(tmp_path, unusual)[0].key == ""


def test_twenty_answers_are_kept(tmp_path: Path) -> None:
    for number in range(25):
        params = {**PARAMS, "locale": str(number)}
        greeted(tmp_path, initialize(params))[0].keep({"capabilities": {}, "number": number})
    assert len(list(tmp_path.iterdir())) == 20


def test_the_start_imports_no_server() -> None:
    found = "[name for name in ('pygls', 'lsprotocol', 'numpy', 'skyline.analysis') if name in sys.modules]"
    code = f"import sys, skyline_lsp.main; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
