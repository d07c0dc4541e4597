"""The whole way: a real script, the real server, the mouse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from skyline_tui.app import SkylineApp
from skyline_tui.client import Server
from skyline_tui.session import ServerSession
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.drag_bar import DragBar
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.trouble import Trouble

if TYPE_CHECKING:
    from textual.pilot import Pilot

pytestmark = [pytest.mark.capture, pytest.mark.timeout(200)]

WAIT_S = 120

# Windows newlines, a byte order mark and a character beyond the first plane before the literal, so that
# "byte for byte" and columns mean something. An iteration is mostly a wait, as long for every batch: a larger batch has
# a higher throughput however busy the machine is, so the right end of the bar is another batch size.
SCRIPT = (
    b"\xef\xbb\xbf# \xf0\x9f\x9a\x80 a small one\r\n"
    b"import time, torch\r\n"
    b"from torch import nn\r\n"
    b"from torch.utils.data import DataLoader, TensorDataset\r\n"
    b"data = TensorDataset(torch.randn(4096, 32), torch.randn(4096, 1))\r\n"
    b"NAME, loader = '\xf0\x9f\x9a\x80', DataLoader(data, batch_size=16, drop_last=True)\r\n"
    b"model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))\r\n"
    b"optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\r\n"
    b"for epoch in range(100):\r\n"
    b"    for x, y in loader:\r\n"
    b"        loss = (model(x) - y).square().mean()\r\n"
    b"        optimizer.zero_grad()\r\n"
    b"        loss.backward()\r\n"
    b"        optimizer.step()\r\n"
    b"        time.sleep(0.004)\r\n"
)


def open_app(script: Path) -> SkylineApp:
    # Two other batch sizes, in the least number of rounds.
    settings = {"profile": {"steps": 3, "budgetS": 0.05}}
    return SkylineApp(script, lambda post: ServerSession(script, Server(post, settings)))


async def until(pilot: Pilot[None], true: Callable[[], bool], what: str) -> None:
    for _ in range(WAIT_S * 10):
        if true():
            return
        await asyncio.sleep(0.1)
    trouble = pilot.app.query_one(Trouble).message
    raise AssertionError(f"waited {WAIT_S} s in vain for {what}; {trouble}")


async def test_profile_drag_undo_and_an_edit_elsewhere(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(SCRIPT)
    app = open_app(script)
    async with app.run_test(size=(120, 40)) as pilot:
        controls, rate = app.query_one(Controls), app.query_one("#throughput-bar", DragBar)
        await until(pilot, lambda: rate.now is not None and not rate.why_not, "a profile with a curve")
        assert controls.current == 16
        await until(pilot, lambda: not app.query_one(Status).busy, "the end of the measurement")

        await pilot.mouse_down(rate, offset=(rate.size.width // 4, 0))
        await pilot.hover(rate, offset=(rate.size.width - 1, 0))
        await pilot.pause()
        assert script.read_bytes() == SCRIPT, "nothing is written while the bar is held"
        wanted = controls.wanted
        assert wanted is not None
        await pilot.mouse_up(rate, offset=(rate.size.width - 1, 0))
        changed = SCRIPT.replace(b"batch_size=16", b"batch_size=%d" % wanted)
        await until(pilot, lambda: script.read_bytes() == changed, "the rewritten file")
        await until(pilot, lambda: controls.current == wanted, "a measurement of the change")

        # After a new profile, and with an edit elsewhere in the file, it can be taken back still.
        script.write_bytes(changed + b"# a remark\r\n")
        await pilot.press("u")
        await until(pilot, lambda: script.read_bytes() == SCRIPT + b"# a remark\r\n", "the literal as it was")

        script.write_bytes(SCRIPT.replace(b"batch_size=16", b"batch_size=24"))
        await until(pilot, lambda: controls.current == 24, "a measurement of the edit made elsewhere")


async def test_a_syntax_error_names_its_line_and_saving_a_cure_measures(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(SCRIPT.replace(b"loss.backward()", b"loss.backward("))
    app = open_app(script)
    async with app.run_test(size=(120, 40)) as pilot:
        trouble = app.query_one(Trouble)
        await until(pilot, lambda: trouble.display, "the error")
        assert "train.py:13" in str(trouble.render())
        script.write_bytes(SCRIPT)
        await until(pilot, lambda: app.profile is not None and not trouble.display, "the profile")


@pytest.mark.fresh
async def test_leaving_during_a_measurement_leaves_no_process(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(SCRIPT)
    server: list[Server] = []

    def connect(post):
        server.append(Server(post, {}))
        return ServerSession(script, server[0])

    app = SkylineApp(script, connect)
    before = set(psutil.Process().children(recursive=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.query_one(Status).busy, "the measurement")
        started = set(psutil.Process().children(recursive=True)) - before
        assert started
        await pilot.press("q")
    assert server[0].exit_code is not None
    assert psutil.wait_procs(started, timeout=30)[1] == []
