"""A client of the language server over real pipes, which sends any bytes and checks every answer."""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

_HEADER = re.compile(rb"Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n")


class Broken(AssertionError):
    """The server broke a rule of the protocol."""


class Client:
    """One server process. ``inbox`` holds its messages in order."""

    def __init__(self, command: list[str], folder: Path, log: Path) -> None:
        self._log = log.open("wb")
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self.inbox: queue.SimpleQueue[dict[str, Any] | Broken | None] = queue.SimpleQueue()
        self.waiting: Counter[int | str] = Counter()
        self.latest: deque[bytes] = deque(maxlen=12)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        stream = self.process.stdin
        assert stream is not None
        self.latest.append(data[:400])
        try:
            stream.write(data)
            stream.flush()
        except BrokenPipeError:
            raise Broken("the server has ended") from None

    def send(self, message: dict[str, Any]) -> None:
        self.write(frame(encoded(message)))

    def answered(self, message: dict[str, Any]) -> None:
        """Record the answer to a request of the client. Raises Broken if no pending request matches it."""
        msg_id = message.get("id")
        if msg_id in (None, "ours"):
            if message["error"]["code"] not in (-32700, -32600):
                raise Broken(f"an answer without a request: {message}")
            return
        if self.waiting[msg_id] <= 0:
            raise Broken(f"an answer to a request that was not sent: {message}")
        self.waiting[msg_id] -= 1
        if not self.waiting[msg_id]:
            del self.waiting[msg_id]
        if ("result" in message) == ("error" in message):
            raise Broken(f"neither a result nor an error, or both: {message}")

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message of the server. None if it sent nothing in time."""
        try:
            message = self.inbox.get(timeout=timeout_s) if timeout_s > 0 else self.inbox.get_nowait()
        except queue.Empty:
            return None
        if message is None:
            raise Broken(f"the server ended with {self.process.wait()}")
        if isinstance(message, Broken):
            raise message
        return message

    def stop(self) -> int:
        """Shut the server down in the usual way. Returns its exit code."""
        self.send({"jsonrpc": "2.0", "id": "farewell", "method": "shutdown"})
        end = time.monotonic() + 30
        while time.monotonic() < end:
            message = self.next(1.0)
            if message is not None and message.get("id") == "farewell":
                break
        self.send({"jsonrpc": "2.0", "method": "exit"})
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.tell_where()
            raise Broken("the server does not end") from None
        finally:
            self.kill()

    def tell_where(self) -> None:
        """Make the server, if it is running, write the stack of each thread to its log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass

    def _listen(self) -> None:
        stream, body = self.process.stdout, b""
        assert stream is not None
        try:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        self.inbox.put(None)
                        return
                    head += line
                found = _HEADER.fullmatch(head)
                if found is None:
                    raise Broken(f"no header: {head[:200]!r}")
                body = stream.read(int(found.group(1)))
                arrived = time.perf_counter()
                message = _checked(json.loads(body.decode("utf-8"), parse_constant=_no_constant))
                self.inbox.put(message | {"arrived": arrived})
        except (ValueError, AssertionError) as error:
            self.inbox.put(Broken(f"{error} ({body[:2000]!r})"))


def server_command() -> list[str]:
    """The command of the server that can report its state."""
    return [sys.executable, str(Path(__file__).with_name("fuzzed_server.py"))]


def encoded(message: Any) -> bytes:
    return json.dumps(message).encode()


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def _checked(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Broken(f"no message: {message}")
    if "method" in message:
        if not isinstance(message["method"], str):
            raise Broken(f"no method: {message}")
    else:
        error = message.get("error")
        if "id" not in message:
            raise Broken(f"an answer without an id: {message}")
        if error is not None and not (
            isinstance(error.get("code"), int) and isinstance(error.get("message"), str)
        ):
            raise Broken(f"an ill-formed error: {message}")
        if error is not None and (error["code"] == -32603 or "raceback" in json.dumps(error)):
            raise Broken(f"a fault of the server: {message}")
    if message.get("method") == "window/showMessage" and "fault in Skyline" in message["params"]["message"]:
        raise Broken(f"a fault of the server: {message}")
    return message


def _no_constant(name: str) -> None:
    raise Broken(f"{name} is not JSON")
