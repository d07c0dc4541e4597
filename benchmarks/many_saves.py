"""Tests that a server leaks nothing after many saves, some of them broken.

Starts the real language server, saves a fast script many times, and waits for the end of each run. Some saves are
broken, each in another way. Before and after, with the same saves in between, it counts the server's processes,
threads and open files, the entries of its temporary folder, and its resident memory. The exit status is 1 if anything
is left over.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from broken_scripts import BROKEN, TRAIN
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from textual.message import Message

from skyline.report.protocol import COMMAND_PROFILE
from skyline_tui.client import Server
from skyline_tui.messages import ProfileMoved, ProgressEnded

LONGEST_S = 120.0
SETTLE_S = 2.0
MOST_GROWTH_BYTES = 20_000_000
POOL_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Maximum number of threads of the pool that reads the client's messages. It grows over time."""
TIMEOUT_S = 8.0
"""Time limit, in s, of a script without iterations. The default of three minutes would take very long here."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The resources that the server holds while idle."""

    processes: int
    threads: int
    files: int
    temporary: int
    resident_bytes: int

    def left_over(self, before: Holdings) -> list[str]:
        """The additional resources compared with ``before``, in words."""
        found = [
            f"{now - then} more {name}"
            for name, now, then in (
                ("processes", self.processes, before.processes),
                ("threads", self.threads, before.threads + POOL_THREADS),
                ("open files", self.files, before.files),
                ("temporary files", self.temporary, before.temporary),
            )
            if now > then
        ]
        growth = self.resident_bytes - before.resident_bytes
        if growth > MOST_GROWTH_BYTES:
            found.append(f"{growth / 1e6:.1f} MB more memory")
        return found


class Session:
    """A server with one script, in its own folders."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "project" / "train.py"
        self.script.parent.mkdir()
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        self._ended = asyncio.Queue[str]()
        self._known: set[int] = set()
        self.errors: list[str] = []
        self.server = Server(self._note, {})

    async def start(self) -> None:
        """Start the server and have the script profiled for the first time."""
        self.script.write_text(TRAIN, encoding="utf-8")
        before = dict(os.environ)
        os.environ.update(TMPDIR=str(self._temporary), OMP_NUM_THREADS="1")
        try:
            await self.server.start(self.script.parent)
        finally:
            os.environ.clear()
            os.environ.update(before)
        options = {"timeoutS": TIMEOUT_S, "steps": 4, "batchPoints": 0}
        await self.server.execute(COMMAND_PROFILE, self.script.as_uri(), options)
        await self._run_over()

    async def save(self, content: str | bytes | None) -> str:
        """Write the script and wait for the end of its run. Returns the last message of its progress."""
        while not self._ended.empty():
            self._ended.get_nowait()
        if content is None:
            # Without a file there is nothing to run. The next save writes it again.
            self.script.unlink()
            await asyncio.sleep(1.0)
            return "removed"
        new = self.script.with_name("train.py.new")
        new.write_bytes(content if isinstance(content, bytes) else content.encode())
        new.replace(self.script)
        return await self._run_over()

    async def holdings(self) -> Holdings:
        """The resources that the server holds, once it has settled."""
        await asyncio.sleep(SETTLE_S)
        server = psutil.Process(self._server_pid())
        return Holdings(
            processes=len(self.processes()),
            threads=server.num_threads(),
            files=server.num_fds(),
            temporary=sum(1 for _ in self._temporary.rglob("*")),
            resident_bytes=server.memory_info().rss,
        )

    def processes(self) -> list[psutil.Process]:
        """All living descendants of this session, even detached ones: their environment has the session's folder."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get("TMPDIR") == str(self._temporary):
                    found.append(process)
        return found

    def _server_pid(self) -> int:
        process = self.server._client._server  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        return process.pid

    async def _run_over(self) -> str:
        return await asyncio.wait_for(self._ended.get(), LONGEST_S)

    def _note(self, message: Message) -> None:
        if isinstance(message, ProgressEnded):
            self._ended.put_nowait(message.text)
        elif isinstance(message, ProfileMoved) and message.change.error:
            self.errors.append(message.change.error)


async def measure(
    saves: int, warm_up: int, broken: Mapping[str, str | bytes | None] = BROKEN
) -> tuple[Holdings, Holdings, dict[str, str], list[float]]:
    """Holdings before and after, the ends of the broken saves, and the time of each save in s."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder).resolve())
        answers: dict[str, str] = {}
        took_s: list[float] = []
        try:
            await session.start()
            for number in range(warm_up):
                await session.save(f"{TRAIN}# warm-up\nnumber = {number}\n")
            before = await session.holdings()
            names = list(broken)
            every = max(1, saves // len(names))
            for number in range(saves):
                begin = time.perf_counter()
                if number % every == every // 2 and number // every < len(names):
                    name = names[number // every]
                    answers[name] = await session.save(broken[name])
                    print(f"{number}: {name}: {answers[name]}", file=sys.stderr)
                else:
                    answer = await session.save(f"{TRAIN}number = {number}\n")
                    if "per iteration" not in answer:
                        raise SystemExit(f"save {number}, which nothing is wrong with, ended with: {answer}")
                took_s.append(time.perf_counter() - begin)
            await session.save(f"{TRAIN}number = 'last'\n")
            after = await session.holdings()
        finally:
            await session.server.stop()
    return before, after, answers, took_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saves", type=int, default=200, help="saves after the warm-up")
    parser.add_argument("--warm-up", type=int, default=20, help="saves before the first count")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()

    machine = Machine.here()
    warn_when_busy(machine)
    before, after, answers, took_s = asyncio.run(measure(options.saves, options.warm_up))
    left = after.left_over(before)
    rows = [
        ["processes, with the server", str(before.processes), str(after.processes)],
        ["threads of the server", str(before.threads), str(after.threads)],
        ["open files of the server", str(before.files), str(after.files)],
        ["temporary files", str(before.temporary), str(after.temporary)],
        [
            "resident memory of the server, MB",
            f"{before.resident_bytes / 1e6:.1f}",
            f"{after.resident_bytes / 1e6:.1f}",
        ],
    ]
    ends = table(["the save", "ended with"], [[name, text.splitlines()[0]] for name, text in answers.items()])
    took = sorted(took_s)[len(took_s) // 2]
    body = (
        f"{table(['', 'before', 'after'], rows)}\n\nCounted {SETTLE_S:g} s after the last run, before and "
        f"after {options.saves} saves, {len(answers)} of them broken, and after {options.warm_up} saves for "
        f"warm-up. A save with its run took {took:.1f} s (median). Left over: "
        f"{', '.join(left) or 'nothing'}.\n\n{ends}"
    )
    figures = {"before": asdict(before), "after": asdict(after), "broken": answers, "save_s": took_s}
    print(write("many_saves", "Resources after many saves", machine, body, figures, results=options.results))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
