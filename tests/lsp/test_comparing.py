"""A script on several GPUs, asked for by a client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

pytestmark = pytest.mark.capture

TRAINING = """\
import os
import torch

batch_size = int(os.environ.get("BATCH", "64"))
model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(torch.randn(batch_size, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


async def test_gpus_are_compared_one_script_at_a_time(editor, project: Path) -> None:
    (project / "train.py").write_text(TRAINING)
    train = editor.open(project / "train.py")
    with pytest.raises(JsonRpcException, match="no GPU called 'h10'"):
        await editor.ask(protocol.DEVICES, uri=train, gpus=["h10"])

    asked = asyncio.ensure_future(editor.ask(protocol.DEVICES, uri=train, gpus=["t4", "h100"]))
    await editor.until(editor.runs)
    with pytest.raises(JsonRpcException, match="is being compared"):
        await editor.ask(protocol.DEVICES, uri=train)
    assert await editor.run(protocol.COMMAND_CANCEL, train) == {
        "status": "cancelled",
        "path": None,
        "script": None,
    }
    with pytest.raises(JsonRpcException, match="cancelled"):
        await asked
    await editor.until(lambda: not editor.runs())

    found = await editor.ask(protocol.DEVICES, uri=train, gpus=["t4"], gridGPerKwh=50)
    assert found["schema"] == "skyline.devices/1"
    assert found["grid_g_per_kwh"] == 50
    assert found["answer"].startswith("T4: ")
    assert "iterations of the unchanged script take" in found["answer"]
    (device,) = found["devices"]
    assert (device["gpu"], device["fits"]) == ("T4", "fits")
    assert device["as_is"]["iteration_ms"]["value"] > 0
    bars = [bar for bar in editor.progress() if bar[0].title == "Comparing GPUs for train.py"]
    assert [bar[-1].kind for bar in bars] == ["end", "end"]
    assert bars[1][-1].message == "predicted on 1 GPU"
    assert not editor.runs()
