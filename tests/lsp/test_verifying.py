"""A verification in an editor session: refused where it cannot be, measured with a bar, cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

pytestmark = pytest.mark.capture

QUICK = {"steps": 4, "batchPoints": 0}


async def test_verify_and_cancel(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    before = (project / "train.py").read_bytes()
    question = {"uri": train, "batchSize": None, "whatifs": ["fused_optimizer"]}
    with pytest.raises(JsonRpcException, match="no profile"):
        await editor.ask(protocol.VERIFY, **question)
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.until(editor.idle)
    with pytest.raises(JsonRpcException, match="rounds are too few"):
        await editor.ask(protocol.VERIFY, **question, rounds=2)

    asked = asyncio.ensure_future(editor.ask(protocol.VERIFY, **question))
    await editor.until(lambda: len(editor.runs()) >= 3)
    with pytest.raises(JsonRpcException, match="is being verified"):
        await editor.ask(protocol.VERIFY, **question)
    assert await editor.run(protocol.COMMAND_CANCEL, train) == {
        "status": "cancelled",
        "path": None,
        "script": None,
    }
    with pytest.raises(JsonRpcException, match="cancelled"):
        await asked
    await editor.until(lambda: not editor.runs())

    # One round fits into no time at all, and says too little.
    found = await editor.ask(protocol.VERIFY, **question, rounds=6, minutes=0.001)

    assert found["schema"] == "skyline.verify/2"
    assert found["whatifs"] == ["fused_optimizer"]
    assert found["measured"]["rounds"] == 1
    assert not found["valid"]
    assert "too few rounds" in found["reason"]
    assert found["entry"]
    assert found["error"] == pytest.approx(
        found["predicted"]["iteration_ms"]["value"] / found["measured"]["iteration_ms"]["value"] - 1
    )
    bars = [bar for bar in editor.progress() if bar[0].title == "Verifying train.py"]
    assert [bar[0].kind for bar in bars] == ["begin", "begin"]
    assert [bar[-1].kind for bar in bars] == ["end", "end"]
    assert bars[0][-1].message.endswith("cancelled")
    assert (project / "train.py").read_bytes() == before
    assert not editor.runs()


SLOW = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(4), torch.ones(1)


torch.manual_seed(0)
loader = DataLoader(Items(), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(1000):
    for inputs, targets in loader:
        time.sleep(0.02)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""


async def test_a_change_in_the_buffer_is_measured_over_the_profiled_text(editor, project: Path) -> None:
    script = project / "train.py"
    script.write_text(SLOW)
    train = editor.open(script)
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.until(editor.idle)
    done = await editor.ask(protocol.APPLY, uri=train, batchSize=None, whatifs=["num_workers=2"])
    assert done["applied"]
    # An edit in addition to the change, and neither is saved.
    editor.change(train, "# A note.\n" + editor.text(train))
    asked = (await editor.ask(protocol.CODE_CHANGES, uri=train))["verify"]
    assert asked["whatifs"] == ["num_workers=2"]

    found = await editor.ask(protocol.VERIFY, uri=train, **asked, rounds=6, minutes=0.001)

    assert found["measured"]["rounds"] == 1
    assert "num_workers=2" in found["diff"]
    assert "A note" not in found["diff"]
    # Almost all of an iteration is its sleeps, 60 ms: with two workers those of the items overlap with the rest.
    assert found["measured"]["speedup"]["value"] > 1.3
    assert "too few rounds" in found["reason"]
    assert script.read_text() == SLOW
    assert not editor.runs()
