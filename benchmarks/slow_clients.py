"""Measures the answer time of ``skyline serve`` while hundreds of clients never finish a request.

Starts the real command on a saved profile and opens the requested number of connections. Some send nothing, some send
the head of a request byte by byte, some a body. A connection that the server closes is opened again at once. Meanwhile
the page, the profile and a question are requested, twice a second. The exit status is 1 if an answer took more than a
second or did not arrive.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from machine import Machine
from result_file import RESULTS, table, write

from skyline.trace import store

RECORDED = Path(__file__).resolve().parent.parent / "tests" / "data" / "linear.profile.json.gz"
LONGEST_S = 1.0
TRICKLE_S = 1.0


class Crowd:
    """Clients on a separate thread, each of which sends at most one byte per second."""

    def __init__(self, port: int, token: str, clients: int) -> None:
        self._port = port
        head = f"GET /{token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Filler: {'x' * 4000}".encode()
        body = (
            f"POST /{token}/simulate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        )
        self._texts = (b"", head, body.encode() + b"Content-Length: 4000\r\n\r\n" + b" " * 4000)
        self._clients = clients
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.opened = 0

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        selector = selectors.DefaultSelector()
        sent: dict[socket.socket, list[bytes]] = {}
        while not self._stop.is_set():
            while len(sent) < self._clients and not self._stop.is_set():
                self._open(selector, sent)
            for key, _ in selector.select(0.05):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                try:
                    gone = not connection.recv(1 << 16)
                except OSError:
                    gone = True
                if gone:
                    selector.unregister(connection)
                    connection.close()
                    del sent[connection]
            for connection, rest in sent.items():
                if rest[0] and random.random() < 0.05 / TRICKLE_S:
                    try:
                        connection.send(rest[0][:1])
                    except OSError:
                        continue
                    rest[0] = rest[0][1:]
        for connection in sent:
            connection.close()

    def _open(self, selector: selectors.BaseSelector, sent: dict[socket.socket, list[bytes]]) -> None:
        try:
            connection = socket.create_connection(("127.0.0.1", self._port), 5)
        except OSError:
            return
        connection.setblocking(False)
        text = random.choice(self._texts)
        # A whole head, followed by a slow body.
        head = text.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if b"\r\n\r\n" in text else b""
        connection.send(head)
        sent[connection] = [text[len(head) :]]
        selector.register(connection, selectors.EVENT_READ)
        self.opened += 1


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The running command on the recorded profile, and the page's address."""
    recorded = store.load(RECORDED)
    (source,) = recorded.sources
    script = folder.resolve() / "train.py"
    script.write_text(source.text)
    store.save(replace(recorded, script=str(script), sources=(replace(source, path=str(script)),)))
    command = [sys.executable, "-m", "skyline", "serve", "--no-browser", "--saved", str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ask(port: int, path: str, body: str | None) -> float:
    """The time until the answer, in s."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200, response.status
    return time.perf_counter() - began


def await_profile(port: int, token: str) -> None:
    """Return once the saved profile is shown."""
    while True:
        try:
            ask(port, f"/{token}/profile", None)
            return
        except AssertionError:
            time.sleep(0.1)


def measure(port: int, token: str, seconds: float) -> tuple[list[float], int]:
    """The durations of the answers, and the number of missing answers."""
    took: list[float] = []
    failed = 0
    questions = (("", None), ("profile", None), ("simulate", json.dumps({"batchSize": 64})))
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for name, body in questions:
            try:
                took.append(ask(port, f"/{token}/{name}", body))
            except (OSError, AssertionError, http.client.HTTPException) as error:
                failed += 1
                print(f"no answer: {error!r}", file=sys.stderr)
        time.sleep(0.5)
    return took, failed


def _row(beside: str, took: list[float], failed: int) -> tuple[str, ...]:
    median_ms, longest_ms = statistics.median(took) * 1e3, max(took) * 1e3
    return beside, str(len(took)), f"{median_ms:.0f}", f"{longest_ms:.0f}", str(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=400)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    with tempfile.TemporaryDirectory() as folder:
        process, url = serve(Path(folder))
        try:
            port, token = urlsplit(url).port, urlsplit(url).path.strip("/")
            assert port is not None
            await_profile(port, token)
            resting, _ = measure(port, token, min(5.0, options.seconds))
            server = psutil.Process(process.pid)
            with Crowd(port, token, options.clients) as crowd:
                time.sleep(min(2.0, options.seconds))
                before_s = sum(server.cpu_times()[:2])
                took, failed = measure(port, token, options.seconds)
                cpu_s = sum(server.cpu_times()[:2]) - before_s
                descriptors, threads = server.num_fds(), server.num_threads()
        finally:
            process.terminate()
            said = process.communicate(timeout=30)[1]
    rows = [_row("no slow client", resting, 0), _row(f"{options.clients} slow clients", took, failed)]
    body = (
        f"{table(('with', 'answers', 'median, ms', 'longest, ms', 'failed'), rows)}\n\n"
        f"In {options.seconds:g} s, {crowd.opened} slow connections were opened. At the end the server had "
        f"{descriptors} descriptors and {threads} threads. It used {cpu_s:.1f} s of processor time."
    )
    figures = {"alone_s": resting, "beside_slow_clients_s": took, "failed": failed, "opened": crowd.opened}
    print(
        write("slow_clients", "Answers during slow requests", machine, body, figures, results=options.results)
    )
    traceback = "Traceback" in said
    if traceback:
        print(said, file=sys.stderr)
    return int(failed > 0 or traceback or max(took) > LONGEST_S)


if __name__ == "__main__":
    sys.exit(main())
