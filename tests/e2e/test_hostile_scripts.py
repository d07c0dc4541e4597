"""Scripts and circumstances that mean harm, in one session with one server, which must come through all of them.

Others are in ``tests/lsp/test_failures.py`` and ``tests/benchmarks/test_many_saves.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from skyline.report.protocol import COMMAND_PROFILE, PROFILE, UriParams
from skyline.report.schema import ProfileReport
from skyline_tui.client import Server
from skyline_tui.messages import ProfileMoved, ProgressEnded

pytestmark = pytest.mark.capture

WAIT_S = 90.0
TESTS = Path(__file__).resolve().parents[1]
QUICK = {"steps": 3, "batchPoints": 0, "timeoutS": 8}
GOOD = """\
import torch

torch.set_num_threads(1)
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100_000):
    optimizer.zero_grad()
    loss = net(torch.ones(4, 8)).sum()
    loss.backward()
    optimizer.step()
"""
LOUD = "    print('x' * 100_000)\n    __import__('os').write(1, b'\\xff' * 9999)\n    loss.backward()"
HOSTILE = {
    "leaves with os._exit": ("import os\nimport torch\nos._exit(5)\n", "5"),
    "prints without end": (GOOD.replace("    loss.backward()", LOUD), ""),
}


class Session:
    """A server, and what it says by itself."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[ProfileMoved | ProgressEnded] = asyncio.Queue()
        self.server = Server(self._note, {"profile": {"onSave": "never"}})

    def _note(self, message: Any) -> None:
        if isinstance(message, ProfileMoved | ProgressEnded):
            self.said.put_nowait(message)

    async def profile(self, script: Path) -> str:
        """The headline of a run, or what went wrong."""
        await self.server.execute(COMMAND_PROFILE, script.as_uri(), QUICK)
        return await self.end()

    async def end(self) -> str:
        while True:
            message = await asyncio.wait_for(self.said.get(), WAIT_S)
            if isinstance(message, ProgressEnded):
                return message.text


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own with room for nothing but a script."""
    folder = tmp_path.resolve() / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("making a small disk takes Linux and the right to mount")
    try:
        (folder / "train.py").write_text(GOOD)
        with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(b"x" * 512)
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server measures briefly, and imports faster."""
    server = (sys.executable, str(TESTS / "brief_measurements.py"), "lsp")
    monkeypatch.setattr("skyline_tui.client.server_command", lambda: server)
    monkeypatch.setenv("PYTHONPATH", str(TESTS / "preloaded"))


@pytest.mark.usefixtures("brief")
async def test_one_server_comes_through_them_all(tmp_path: Path, full_disk: Path) -> None:
    root = tmp_path.resolve()
    session = Session()
    await session.server.start(root)
    process = session.server._client._server
    assert process is not None
    try:
        for name, (text, expected) in HOSTILE.items():
            script = root / f"{name.replace(' ', '_')}.py"
            script.write_text(text)
            ended = await session.profile(script)
            if expected:
                assert ended.startswith("failed"), (name, ended)
                assert any(part in ended for part in expected.split("|")), (name, ended)
            else:
                assert "per iteration" in ended, (name, ended)

        # A full disk: there are figures, although they cannot be kept.
        ended = await session.profile(full_disk / "train.py")
        assert "per iteration" in ended
        uri = UriParams((full_disk / "train.py").as_uri())
        assert await session.server.request(PROFILE, uri, ProfileReport)

        # Edited while it is profiled: the run goes on with the text it began with, and its end says that it is stale.
        script = root / "edited.py"
        script.write_text(
            GOOD.replace("    optimizer.step()", "    optimizer.step()\n    __import__('time').sleep(0.02)")
        )
        await session.server.execute(COMMAND_PROFILE, script.as_uri(), QUICK | {"steps": 40})
        while not any("capture/child" in " ".join(child.cmdline()) for child in _below(process.pid)):
            await asyncio.sleep(0.05)
        script.write_text(GOOD.replace("net(", "net.forward("))
        session.server.notify_watched((script.as_uri(),))
        ended = await session.end()
        assert "per iteration" in ended
        report = await session.server.request(PROFILE, UriParams(script.as_uri()), ProfileReport)
        assert any(row.line == 8 for row in report.lines)

        assert not await _running(process.pid), "nothing that was run is left"
    finally:
        await session.server.stop()


def _below(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.name() != "skyline-warm" and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


async def _running(pid: int) -> list[psutil.Process]:
    for _ in range(50):
        if not (found := _below(pid)):
            return []
        await asyncio.sleep(0.1)
    return found
