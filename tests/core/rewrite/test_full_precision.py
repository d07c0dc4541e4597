"""Binary cross entropy keeps full precision under autocast."""

from __future__ import annotations

from dataclasses import replace

import pytest

HEAD = "import torch\nmodel = make()\noptimizer = torch.optim.Adam(model.parameters())\n"

FULL = {
    "a function": (
        "    out = model(x)\n    loss = F.binary_cross_entropy(out, y)\n    loss.backward()\n",
        (
            "    with torch.autocast(device_type=device.type, dtype=torch.bfloat16):\n        out = model(x)\n"
            "        with torch.autocast(device_type=out.device.type, enabled=False):\n"
            "            loss = F.binary_cross_entropy(out.float(), y)\n    loss.backward()\n"
        ),
    ),
    "an object": (
        "    out = model(x)\n    loss = loss_of(out, y) + penalty\n    loss.backward()\n",
        (
            "    with torch.autocast(device_type=device.type, dtype=torch.bfloat16):\n        out = model(x)\n"
            "        with torch.autocast(device_type=out.device.type, enabled=False):\n"
            "            loss = loss_of(out.float(), y) + penalty\n    loss.backward()\n"
        ),
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_binary_cross_entropy_keeps_full_precision(workshop, name: str) -> None:
    head = HEAD + "loss_of = torch.nn.BCELoss()\ndevice = torch.device(named)\n"
    head += "for x, y in loader:\n    x = x.to(device)\n"
    before, after = FULL[name]
    shop = workshop(head + before + "    optimizer.step()\n", optimizers=(("Adam", 3),))
    assert shop.edited("amp=bf16") == head + after + "    optimizer.step()\n"
    again = replace(shop, files={**shop.files, "/project/train.py": head + after + "    optimizer.step()\n"})
    assert again.plan("amp=bf16").edits == ()


def test_binary_cross_entropy_stays_where_nothing_runs_on_a_gpu(workshop) -> None:
    loop = "for x in loader:\n    loss = F.binary_cross_entropy(model(x), y)\n    loss.backward()\n"
    assert 'device_type="cpu"' in workshop(HEAD + loop, optimizers=(("Adam", 3),)).edited("amp")
