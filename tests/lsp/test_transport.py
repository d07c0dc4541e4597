from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter

WAIT_S = 30


class Listening(NamedTuple):
    server: subprocess.Popen[str]
    port: int
    token: str


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    file = tmp_path / "token"
    command = [sys.executable, "-m", "skyline_lsp", "--tcp", "0", "--token-file", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+), token in (.+)", server.stderr.readline())
        assert found
        assert found.group(2) == str(file)
        yield Listening(server, int(found.group(1)), file.read_text().strip())
        server.kill()


def introduction(options: object) -> types.InitializeParams:
    return types.InitializeParams(capabilities=types.ClientCapabilities(), initialization_options=options)


async def connected(port: int) -> pytest_lsp.LanguageClient:
    client = pytest_lsp.LanguageClient(converter_factory=default_converter)
    pytest_lsp.client.register_lsp_features(client)
    await client.start_tcp("127.0.0.1", port)
    return client


def answer_to(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
        connection.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(1 << 16):
                found += piece
        return found


async def test_tcp_serves_one_client_that_knows_the_token(listening: Listening, tmp_path: Path) -> None:
    client = await connected(listening.port)
    result = await client.initialize_session(introduction({"token": listening.token}))
    assert result.server_info is not None
    assert result.server_info.name == "skyline"
    assert result.capabilities.code_lens_provider
    assert result.capabilities.hover_provider
    assert result.capabilities.execute_command_provider
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listening.port), 1).close()
    assert not (tmp_path / "token").exists(), "it admits nobody any more"
    await asyncio.wait_for(client.shutdown_async(None), WAIT_S)
    client.exit(None)
    assert await asyncio.to_thread(listening.server.wait, WAIT_S) == 0
    await client.stop()


async def test_a_web_page_runs_nothing_and_the_editor_is_served_after_it(
    listening: Listening, tmp_path: Path
) -> None:
    """A page may POST anything to a loopback port without being asked; its headers come first."""
    script = tmp_path / "evil.py"
    script.write_text("raise SystemExit")
    messages = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None, "rootUri": None}},
        {"method": "initialized", "params": {}},
        {
            "id": 2,
            "method": "workspace/executeCommand",
            "params": {"command": "skyline.profile", "arguments": [script.as_uri()]},
        },
    ]
    body = b""
    for message in messages:
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        body += b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
    post = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n"
    assert await asyncio.to_thread(answer_to, listening.port, post + body) == b""
    told = await asyncio.to_thread(answer_to, listening.port, body)
    assert b"initializationOptions.token" in told
    assert told.count(b"Content-Length") == 1, "only initialize is answered"
    assert listening.token.encode() not in told

    client = await connected(listening.port)
    result = await client.initialize_session(introduction({"skyline": {"token": listening.token}}))
    assert result.server_info is not None
    await asyncio.wait_for(client.shutdown_async(None), WAIT_S)
    client.exit(None)
    await client.stop()


def test_a_port_in_use_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _run("--tcp", str(port))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_a_port_that_is_none_is_said_so() -> None:
    done = _run("--tcp", "123456")
    assert done.returncode == 2
    assert "cannot listen on 127.0.0.1:123456" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * 40)
    file.chmod(0o644)
    done = _run("--tcp", "0", "--token-file", str(file))
    assert done.returncode == 2
    assert f"chmod 600 {file}" in done.stderr


def test_a_log_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    done = _run("--log-file", str(tmp_path / "missing" / "log"))
    assert done.returncode == 2
    assert "cannot write the log" in done.stderr


def test_leaving_without_a_word_is_an_error_and_says_nothing_on_stdout() -> None:
    done = _run()
    assert (done.returncode, done.stdout) == (1, "")


def test_prints_do_not_reach_the_protocol(tmp_path: Path) -> None:
    """Neither Python's ``print`` nor a child process that inherited standard output can garble it."""
    program = (
        "import os, subprocess, sys\n"
        "from skyline_lsp.stdio import reserve_stdio\n"
        "stdio = reserve_stdio()\n"
        "print('from print')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a child\")'])\n"
        "stdio.writer.write(os.read(stdio.source, 100))\n"
        "stdio.writer.close()\n"
    )
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="message",
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=WAIT_S,
    )
    assert done.stdout == "message"
    assert "from print" in done.stderr
    assert "from a child" in done.stderr


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "skyline_lsp", *arguments]
    return subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=WAIT_S)
