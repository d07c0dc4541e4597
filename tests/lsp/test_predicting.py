"""A profile for a GPU that is not here, asked for by the setting or by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.report import protocol

TRAINING = """\
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(512, 512).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(torch.randn(64, 512, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.capture
async def test_the_lens_says_that_it_is_predicted_and_for_what(editor, project: Path) -> None:
    (project / "train.py").write_text(TRAINING)
    train = editor.open(project / "train.py")
    await editor.run(protocol.COMMAND_PROFILE, train, {"gpu": "h100", "batchPoints": 0})
    await editor.until(editor.idle)
    (headline, *_) = await editor.lenses(train)
    assert "(predicted, H100)" in headline
    profile = await editor.ask(protocol.PROFILE, uri=train)
    assert profile["mode"] == "predicted"
    hover = await editor.hover(train, 6)
    assert "nothing was run" in hover
    assert "times rest on" in hover

    await editor.run(protocol.COMMAND_PROFILE, train, {"gpu": "h10", "batchPoints": 0})
    await editor.until(editor.idle)
    failed = await editor.next_change(lambda change: change["error"] is not None)
    assert "no GPU called 'h10'" in failed["error"]
