from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter

WAIT_S = 30


@pytest.fixture
def listening() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "skyline_lsp", "--tcp", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", server.stderr.readline())
        assert found
        yield server, int(found.group(1))
        server.kill()


async def test_tcp_serves_one_client_on_the_loopback(listening: tuple[subprocess.Popen[str], int]) -> None:
    server, port = listening
    client = pytest_lsp.LanguageClient(converter_factory=default_converter)
    pytest_lsp.client.register_lsp_features(client)
    await client.start_tcp("127.0.0.1", port)
    result = await client.initialize_session(types.InitializeParams(capabilities=types.ClientCapabilities()))
    assert result.server_info is not None
    assert result.server_info.name == "skyline"
    assert result.capabilities.code_lens_provider
    assert result.capabilities.hover_provider
    assert result.capabilities.execute_command_provider
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1).close()
    await asyncio.wait_for(client.shutdown_async(None), WAIT_S)
    client.exit(None)
    assert await asyncio.to_thread(server.wait, WAIT_S) == 0
    await client.stop()


def test_a_port_in_use_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _run("--tcp", str(port))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


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
        "from skyline_lsp import transport\n"
        "from skyline_lsp.main import create_server\n"
        "server = create_server()\n"
        "transport.serve = lambda server, source, writer: (\n"
        "    print('from print'), subprocess.run([sys.executable, '-c', 'print(\"from a child\")']),\n"
        "    writer.write(os.read(source, 100)), writer.close())\n"
        "transport.serve_stdio(server)\n"
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
