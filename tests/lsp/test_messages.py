"""Every request is answered, in words, whatever it holds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

INITIALIZE = {"processId": None, "rootUri": None, "capabilities": {}}
PARSE, REQUEST, METHOD, PARAMS, EARLY = -32700, -32600, -32601, -32602, -32002


class Wire:
    """The server's pipes, and nothing between."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "skyline_lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, body: bytes | Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next message that is an answer."""
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            message = json.loads(stream.read(length))
            if "method" not in message:
                return message

    def ask(self, method: str, params: Any = None, msg_id: Any = 1) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params})
        return self.answer()

    def refused(self, body: bytes | Any) -> tuple[Any, int, str]:
        """Id, code and words of the refusal of a message."""
        self.send(body)
        answer = self.answer()
        return answer["id"], answer["error"]["code"], answer["error"]["message"]


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.process.kill()
    wire.process.wait()
    for stream in (wire.process.stdin, wire.process.stdout):
        assert stream is not None
        stream.close()


def test_a_session_of_mistakes(wire: Wire, tmp_path: Path) -> None:
    hover = {"textDocument": {"uri": "file:///x.py"}, "position": {"line": 0, "character": 0}}

    def request(method: Any = "textDocument/hover", params: Any = hover, **more: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params} | more

    assert wire.refused(request())[:2] == (7, EARLY)
    assert "result" in wire.ask("initialize", INITIALIZE)
    wire.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
    assert wire.refused(request("initialize", INITIALIZE))[:2] == (7, REQUEST)

    assert wire.refused(b"{nonsense")[:2] == (None, PARSE)
    assert wire.refused(b'{"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"a": NaN}}')[:2] == (
        None,
        PARSE,
    )
    assert wire.refused(b"[" * 100_000)[:2] == (None, PARSE)
    assert wire.refused([request()])[:2] == (None, REQUEST)
    assert wire.refused(request(jsonrpc="1.0"))[:2] == (7, REQUEST)
    assert wire.refused(request(method=5))[:2] == (7, REQUEST)
    assert wire.refused(request(id=[1]))[:2] == (None, REQUEST)
    assert wire.refused({"jsonrpc": "2.0", "id": 7})[:2] == (7, REQUEST)
    assert wire.refused(request("textDocument/didOpen"))[:2] == (7, REQUEST)
    assert wire.refused(request("nonsense"))[:2] == (7, METHOD)

    msg_id, code, words = wire.refused(request(params={"textDocument": {"uri": "file:///x.py"}}))
    assert (msg_id, code) == (7, PARAMS)
    assert "position" in words
    msg_id, code, words = wire.refused(request(params=hover | {"position": {"line": -1, "character": 0}}))
    assert (msg_id, code) == (7, PARAMS)
    assert wire.refused(request(params=[1]))[:2] == (7, PARAMS)
    assert wire.refused(request(params="x"))[:2] == (7, PARAMS)
    words = wire.refused(request("skyline/simulate", {"uri": "file:///x.py", "batchSize": "many"}))[2]
    assert "batchSize" in words

    # None of it did any harm.
    assert wire.ask("textDocument/hover", hover) == {"jsonrpc": "2.0", "id": 1, "result": None}
    for uri in ("file://[", "file:///a%00b", "x", "", "file:///dev/zero", "untitled:1"):
        assert wire.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})["result"] == []
        told = wire.ask("workspace/executeCommand", {"command": "skyline.profile", "arguments": [uri]})
        assert "not a file on this machine" in told["error"]["message"]
    assert wire.ask("shutdown")["result"] is None
    assert wire.refused(request())[:2] == (7, REQUEST)
    wire.send({"jsonrpc": "2.0", "method": "exit"})
    assert wire.process.wait(30) == 0


def test_a_session_ends_while_the_client_owes_an_answer(wire: Wire) -> None:
    """As where an editor is closed at once: the server still waits for the settings that it asked for."""
    capabilities = {"workspace": {"configuration": True}}
    assert "result" in wire.ask("initialize", INITIALIZE | {"capabilities": capabilities})
    wire.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
    assert wire.ask("shutdown").get("result", "an error") is None
    wire.send({"jsonrpc": "2.0", "method": "exit"})
    assert wire.process.wait(30) == 0
