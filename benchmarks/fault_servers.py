"""Faults of long-running programs: the language server, the terminal UI and ``skyline serve``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from random import Random

import psutil
from broken_scripts import TRAIN
from fault_command import Lost, told
from fault_project import Project
from textual.message import Message

from skyline.report.protocol import COMMAND_PROFILE, PROFILE, UriParams
from skyline.report.schema import ProfileReport
from skyline_tui.client import Server
from skyline_tui.messages import ProgressEnded

QUICK = {"steps": 3, "batchPoints": 0, "timeoutS": 8}
LONGEST_S = 90.0
HALF_REQUESTS = (b"G", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
MORE_DESCRIPTORS = 24
"""Additional descriptors that a server may hold after runs, for pipes to the process from which runs are forked."""
SAVES = 10_000
"""Number of saves in a burst, all sent during runs."""


class Client:
    """A client with its own server, in the project's folder."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.uri = project.script.as_uri()
        self.server = Server(self._note, {})
        self._ended: asyncio.Queue[str] = asyncio.Queue()

    async def start(self) -> None:
        """Start the server with the project's home and temporary folder."""
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.project.environment)
        try:
            await self.server.start(self.project.folder)
        finally:
            os.environ.clear()
            os.environ.update(before)

    @property
    def process(self) -> psutil.Process:
        process = self.server._client._server  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        return psutil.Process(process.pid)

    async def profile(self) -> None:
        """Request a run. ``ended`` waits for its end."""
        await self.server.execute(COMMAND_PROFILE, self.uri, QUICK)

    async def ended(self) -> str:
        """The final message of a run's progress. Raises Lost if the run does not end."""
        try:
            return await asyncio.wait_for(self._ended.get(), LONGEST_S)
        except asyncio.TimeoutError:
            raise Lost(f"a run has not ended within {LONGEST_S:g} s") from None

    async def answers(self) -> None:
        """Raise Lost if the server does not return the figures."""
        try:
            request = self.server.request(PROFILE, UriParams(self.uri), ProfileReport)
            await asyncio.wait_for(request, LONGEST_S)
        except Exception as error:
            raise Lost(f"the server does not answer: {error}") from error

    async def check_descriptors(self, before: int) -> None:
        """Raise Lost if the server holds many more descriptors than before, or a network socket."""
        deadline = time.monotonic() + 15
        while True:
            try:
                more = self.process.num_fds() - before
                sockets = self.process.net_connections("inet")
            except (psutil.Error, AssertionError):
                return  # it was killed
            if more <= MORE_DESCRIPTORS and not sockets:
                return
            if time.monotonic() > deadline:
                raise Lost(f"the server holds {more} more descriptors and {len(sockets)} sockets")
            await asyncio.sleep(0.2)

    async def stop(self) -> None:
        """End the server as a client does."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.server.stop(), 20)

    def _note(self, message: Message) -> None:
        if isinstance(message, ProgressEnded):
            self._ended.put_nowait(message.text)


def _with_client(fault: Callable[[Client, Random], object]) -> Callable[[Project, Random], str]:
    def inject(project: Project, random: Random) -> str:
        async def session() -> str:
            client = Client(project)
            await client.start()
            try:
                before = client.process.num_fds()
                said = str(await fault(client, random))  # pyright: ignore[reportGeneralTypeIssues]
                await client.check_descriptors(before)
                return said
            finally:
                await client.stop()

        return asyncio.run(session())

    return inject


async def _server_killed(client: Client, random: Random) -> str:
    await client.profile()
    await asyncio.sleep(random.uniform(0, 6))
    client.process.kill()
    await asyncio.sleep(1)
    return "killed; its runs must end too"


async def _server_paused(client: Client, random: Random) -> str:
    await client.profile()
    await asyncio.sleep(random.uniform(0, 3))
    client.process.suspend()
    await asyncio.sleep(random.uniform(0.5, 3))
    client.process.resume()
    said = await client.ended()
    await client.answers()
    return said


async def _server_limited(client: Client, random: Random) -> str:
    """Limit descriptors, memory or file size for a while. Afterwards the server must answer."""
    which, least = random.choice(
        ((resource.RLIMIT_NOFILE, client.process.num_fds()), (resource.RLIMIT_FSIZE, 0))
    )
    before = resource.prlimit(client.process.pid, which)
    limit = least + random.randrange(40)
    resource.prlimit(client.process.pid, which, (limit, before[1]))
    with contextlib.suppress(Exception):
        await asyncio.wait_for(client.profile(), 20)
        await asyncio.wait_for(client.ended(), 60)
    resource.prlimit(client.process.pid, which, before)
    await client.profile()
    if "per iteration" not in (after := await client.ended()):
        raise Lost(f"without the limit the next run fails: {after}")
    await client.answers()
    return f"a limit of {limit}, and it answers again"


async def _run_killed(client: Client, random: Random) -> str:
    await client.profile()
    await asyncio.sleep(random.uniform(0.2, 4))
    for process in client.process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.send_signal(random.choice((signal.SIGKILL, signal.SIGSTOP)))
    said = await client.ended()
    await client.answers()
    # The next run must work, whatever was killed.
    await client.profile()
    after = await client.ended()
    if "per iteration" not in after:
        raise Lost(f"after a killed run the next one fails: {after}")
    return said.splitlines()[0]


async def _torn_meanwhile(client: Client, random: Random) -> str:
    await client.profile()
    await asyncio.sleep(random.uniform(0, 4))
    for path in client.project.folder.glob(".skyline/*"):
        content = path.read_bytes()
        path.write_bytes(content[: random.randrange(len(content) + 1)])
    said = await client.ended()
    await client.answers()
    return said.splitlines()[0]


async def _many_saves(client: Client, random: Random) -> str:
    await client.profile()
    script = client.project.script
    for number in range(SAVES):
        if number % 500 == 0:
            script.write_text(f"{TRAIN}# {number}\n", encoding="utf-8")
        client.server.notify_watched((client.uri,))
        if number % 100 == 0:
            await asyncio.sleep(0)
    client.project.put_back()
    client.server.notify_watched((client.uri,))
    said = await client.ended()
    await client.answers()
    return f"{SAVES} saves: {said.splitlines()[0]}"


def _two_servers(project: Project, random: Random) -> str:
    async def session() -> str:
        clients = [Client(project), Client(project)]
        for client in clients:
            await client.start()
        try:
            for client in clients:
                await client.profile()
                await asyncio.sleep(random.uniform(0, 1))
            said = [await client.ended() for client in clients]
            for client in clients:
                await client.answers()
            return said[0].splitlines()[0]
        finally:
            for client in clients:
                await client.stop()

    return asyncio.run(session())


def _terminal_ui(how: str) -> Callable[[Project, Random], str]:
    def inject(project: Project, random: Random) -> str:
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(project.folder)
            os.execve(
                sys.executable,
                [sys.executable, "-m", "skyline", "tui", "train.py"],
                project.environment | {"TERM": "xterm-256color"},
            )
        os.set_blocking(terminal, False)
        if how == "few descriptors":
            limit = random.randrange(8, 64)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (limit, limit))
        shown = _watched(terminal, random.uniform(0.5, 8))
        if how == "stopped":
            os.kill(process, signal.SIGSTOP)
            time.sleep(random.uniform(0.2, 3))
            os.kill(process, signal.SIGCONT)
            shown += _watched(terminal, 1)
        if how == "killed":
            os.kill(process, signal.SIGKILL)
        os.close(terminal)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(process, os.WNOHANG)[0]:
                    break
            time.sleep(0.05)
        else:
            os.kill(process, signal.SIGKILL)
            raise Lost("the terminal UI outlives its terminal")
        if b"Traceback (most recent call last)" in shown and how != "few descriptors":
            raise Lost(f"the terminal UI shows a traceback: {shown[-200:]!r}")
        return how

    return inject


def _watched(terminal: int, seconds: float) -> bytes:
    """The output of a program on its terminal during ``seconds`` seconds."""
    shown = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError, OSError):
            shown += os.read(terminal, 1 << 16)
        time.sleep(0.02)
    return shown


def _served(fault: str) -> Callable[[Project, Random], str]:
    def inject(project: Project, random: Random) -> str:
        port = _free_port()
        process = project.start("serve", "--saved", "--no-browser", "--port", str(port), "train.py")
        if fault == "few descriptors":
            limit = random.randrange(8, 64)
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        ended_itself = False
        try:
            ended_itself = not _until_answers(port, process)
            if fault == "slow clients":
                held = psutil.Process(process.pid).num_fds()
                slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(100)]
                for one in slow:
                    one.sendall(random.choice(HALF_REQUESTS))
                _until_answers(port, process)
                for one in slow:
                    one.close()
                _until_closed(psutil.Process(process.pid), held)
            elif fault == "stopped":
                process.send_signal(signal.SIGSTOP)
                time.sleep(random.uniform(0.2, 3))
                process.send_signal(signal.SIGCONT)
                _until_answers(port, process)
            else:
                time.sleep(random.uniform(0, 2))
        finally:
            process.send_signal(signal.SIGKILL if fault == "killed" else signal.SIGTERM)
            ended = project.finish(process, 30)
        if ended_itself and fault != "few descriptors":
            raise Lost(f"serve ended by itself: {ended.last_line}")
        if fault != "few descriptors":
            told(ended, {0, 130, -signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGKILL})
        return f"{fault}: {ended.last_line}" if ended_itself else fault

    return inject


def _until_closed(server: psutil.Process, held: int) -> None:
    """Raise Lost if descriptors of closed connections stay open."""
    deadline = time.monotonic() + 30
    while (more := server.num_fds() - held) > MORE_DESCRIPTORS:
        if time.monotonic() > deadline:
            raise Lost(f"serve holds {more} descriptors of closed clients")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _until_answers(port: int, process: subprocess.Popen[str]) -> bool:
    """True once the page is served, False if the server has ended. Raises Lost if neither happens."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return True
        except urllib.error.HTTPError:
            # Without the token in its address the server refuses, which is an answer.
            return True
        except OSError:
            pass
        time.sleep(0.1)
    raise Lost("the page is not served")


SERVER_FAULTS: dict[str, Callable[[Project, Random], str]] = {
    "language server killed in a run": _with_client(_server_killed),
    "language server stopped and continued": _with_client(_server_paused),
    "language server with few descriptors or small files": _with_client(_server_limited),
    "a run of the language server killed or stopped": _with_client(_run_killed),
    "profiles torn while the server runs": _with_client(_torn_meanwhile),
    "a burst of ten thousand saves": _with_client(_many_saves),
    "two servers and two clients on one file": _two_servers,
    "terminal UI killed": _terminal_ui("killed"),
    "terminal closed under the terminal UI": _terminal_ui("hung up"),
    "terminal UI stopped and continued": _terminal_ui("stopped"),
    "terminal UI with few descriptors": _terminal_ui("few descriptors"),
    "serve killed": _served("killed"),
    "serve stopped and continued": _served("stopped"),
    "serve with few descriptors": _served("few descriptors"),
    "serve with a hundred slow clients": _served("slow clients"),
}
"""The faults by description. Each starts the program that it harms."""
