"""Language servers that are forked from one process for all tests of a worker, in place of programs of their own.

A server takes a second of the processor to import, PyTorch and its compiler three more for the server's first run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from unittest import mock

SERVER = Path(__file__).with_name("brief_measurements.py")
PROGRAM = Path(__file__).with_name("forking_server.py")
# As in the environment of each run.
VARIABLES = {"SKYLINE_RUN": "0" * 16, "KINETO_LOG_LEVEL": "5"}


class ForkedServer:
    """A server's process, as ``asyncio.subprocess.Process`` presents one."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        ended: asyncio.StreamReader,
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._end = asyncio.create_task(self._await_end(ended))

    async def _await_end(self, ended: asyncio.StreamReader) -> int:
        self.returncode = int(await ended.read() or -signal.SIGKILL)
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedServers:
    """Starts servers; the process that they are forked from is started with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def in_place_of_programs(self) -> Iterator[None]:
        """Servers that asyncio is asked to start meanwhile are forked."""
        start = asyncio.create_subprocess_exec

        async def started(program: str, *arguments: str, **options: Any) -> Any:
            if arguments != (str(SERVER), "lsp"):
                return await start(program, *arguments, **options)
            return await self._start(arguments, new_session=options.get("start_new_session", False))

        with mock.patch.object(asyncio, "create_subprocess_exec", started):
            yield

    def close(self) -> None:
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.wait()

    async def _start(self, arguments: tuple[str, ...], *, new_session: bool) -> ForkedServer:
        request = {
            "arguments": list(arguments),
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "session": new_session,
        }
        pipes = [os.pipe() for _ in range(4)]
        (given, stdin), (stdout, out), (stderr, err), (ended, end) = pipes
        try:
            pid = await asyncio.to_thread(self._fork, request, [given, out, err, end])
        finally:
            for one in (given, out, err, end):
                os.close(one)
        readers = [await _reader(os.fdopen(one, "rb", 0)) for one in (stdout, stderr, ended)]
        return ForkedServer(pid, await _writer(os.fdopen(stdin, "wb", 0)), *readers)

    def _fork(self, request: dict[str, object], descriptors: list[int]) -> int:
        with self._lock:
            if self._control is None:
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, str(PROGRAM), str(theirs.fileno())],
                        env={**os.environ, **VARIABLES},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                    )
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            answer = self._control.recv(64)
        assert answer, "the process that servers are forked from has ended"
        return int(answer)


async def _reader(pipe: IO[bytes]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)
