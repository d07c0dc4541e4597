from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from skyline_lsp.admission import LONGEST_INTRODUCTION, Doorway, NotAdmitted, TokenUnusable, token_in

TOKEN = "a token of more than sixteen characters"


def message(options: object, method: str = "initialize") -> bytes:
    parameters = {"capabilities": {}, "initializationOptions": options}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()


def frame(body: bytes, header: bytes = b"Content-Length: %d\r\n\r\n") -> bytes:
    return header % len(body) + body


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_token_opens_the_door_and_is_not_passed_on(size: int) -> None:
    data = frame(message({"token": TOKEN, "steps": 3})) + b"Content-Length: 2\r\n\r\n{}"
    doorway, found = Doorway(TOKEN), b""
    for at in range(0, len(data), size):
        found += doorway.feed(data[at : at + size]) or b"" if not found else data[at : at + size]
    head, _, rest = found.partition(b"\r\n\r\n")
    body, tail = rest[: int(head.split()[1])], rest[int(head.split()[1]) :]
    assert json.loads(body)["params"]["initializationOptions"] == {"steps": 3}
    assert tail == b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "header",
    [
        b"content-length:%d\n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc\r\n\r\n",
    ],
)
def test_headers_of_clients_are_taken(header: bytes) -> None:
    assert Doorway(TOKEN).feed(frame(message({"token": TOKEN}), header))


@pytest.mark.parametrize(
    "data",
    [
        b"P",
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01",
        b"\r\n" + frame(message({"token": TOKEN})),
        b"Content-Length: 2\r\nHost: 127.0.0.1\r\n\r\n",
        b"Content-Length: x\r\n\r\n",
        b"Content-Type: " + b"x" * 1000,
        b"Content-Length: %d\r\n\r\n" % (LONGEST_INTRODUCTION + 1),
        b"Content-Length: 9999999999\r\n\r\n",
        frame(b"no JSON"),
        frame(b"[" * 100_000),
        frame(b"[]"),
        frame(message({"token": TOKEN}, "workspace/executeCommand")),
        frame(message({"token": TOKEN}, "shutdown")),
    ],
)
def test_what_is_no_introduction_is_refused_at_once_and_without_a_word(data: bytes) -> None:
    with pytest.raises(NotAdmitted) as refused:
        Doorway(TOKEN).feed(data)
    assert refused.value.answer == b""


@pytest.mark.parametrize(
    "options",
    [
        None,
        [],
        "x",
        {},
        {"token": ""},
        {"token": TOKEN[:-1]},
        {"token": [TOKEN]},
        {"token": "\ud800"},
        {"skyline": []},
    ],
)
def test_a_client_without_the_token_is_told_what_is_missing(options: object) -> None:
    with pytest.raises(NotAdmitted) as refused:
        Doorway(TOKEN).feed(frame(message(options)))
    told = json.loads(refused.value.answer.partition(b"\r\n\r\n")[2])
    assert told["id"] == 1
    assert "token" in told["error"]["message"]
    assert TOKEN not in str(told)


def test_a_token_is_made_for_this_person_alone_and_goes_with_the_wait(tmp_path: Path) -> None:
    with token_in(tmp_path / "token") as first, token_in(None) as second:
        assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
        assert stat.S_IMODE(second.file.parent.stat().st_mode) == 0o700
        assert first.file.read_text().strip() == first.text
        assert len(first.text) >= 32
        assert first.text != second.text
    assert not first.file.exists()
    assert not second.file.parent.exists()


def test_a_token_that_is_there_is_used_and_left(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(f"{TOKEN}\n")
    with token_in(file) as token:
        assert token.text == TOKEN
    assert file.exists()


def test_a_short_token_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    with pytest.raises(TokenUnusable, match="shorter"), token_in(file):
        pass
    with pytest.raises(TokenUnusable, match="cannot be written"), token_in(tmp_path / "none" / "token"):
        pass
