"""A search by measured trials in an editor session: told as it goes on, cancelled, gone on from."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

pytestmark = pytest.mark.capture

QUICK = {"steps": 4, "batchPoints": 0}
# A large share of the time is spent waiting for batches that workers could prepare.
TRAINING = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.ones(4), torch.ones(1)


torch.manual_seed(0)
loader = DataLoader(Items(), batch_size=16)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(1000):
    for inputs, targets in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
"""


async def test_a_search_is_told_cancelled_and_gone_on_from(editor, project: Path) -> None:
    (project / "train.py").write_text(TRAINING)
    train = editor.open(project / "train.py")
    assert await editor.ask(protocol.TUNED, uri=train) is None
    with pytest.raises(JsonRpcException, match="no profile"):
        await editor.ask(protocol.TUNE, uri=train)
    await editor.run(protocol.COMMAND_PROFILE, train, QUICK)
    await editor.until(editor.idle)
    with pytest.raises(JsonRpcException, match="must be above 0 s"):
        await editor.ask(protocol.TUNE, uri=train, budgetSeconds=0)

    asked = asyncio.ensure_future(editor.ask(protocol.TUNE, uri=train, budgetSeconds=600))
    await editor.until(lambda: any(news["trials"] for news in editor.tuning))
    with pytest.raises(JsonRpcException, match="is being tuned"):
        await editor.ask(protocol.TUNE, uri=train)
    assert (await editor.run(protocol.COMMAND_CANCEL, train))["status"] == "cancelled"
    report = await asked
    assert report["schema"] == "skyline.tune/1"
    assert report["trials"]
    news = next(one for one in editor.tuning if one["trials"])
    assert (news["uri"], news["running"], news["budget_s"]) == (train, True, 600)
    assert news["trials"][0]["changes"] == report["trials"][0]["changes"]
    await editor.until(lambda: not editor.tuning[-1]["running"])
    await editor.until(lambda: not editor.runs())

    kept = await editor.ask(protocol.TUNED, uri=train)
    assert [one["changes"] for one in kept["trials"]] == [one["changes"] for one in report["trials"]]
    assert kept["trials"][kept["best"]]["speedup"] is not None
    # No time is left for another trial: the earlier ones are there.
    again = await editor.ask(protocol.TUNE, uri=train, budgetSeconds=0.5, resume=True)
    assert len(again["trials"]) == len(report["trials"])
    assert (project / "train.py").read_text() == TRAINING
    assert not editor.runs()
