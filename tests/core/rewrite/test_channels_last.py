"""The model is laid out once, and each batch on its way into it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from skyline.trace.record import CodeLine, OperatorShape, Phase, Record, RecordKind

HEAD = "import torch\nmodel = Net()\nopt = torch.optim.SGD(model.parameters(), lr=1)\n"
LINE = "model = model.to(memory_format=torch.channels_last)\n"
SET = f"import torch\nmodel = Net()\n{LINE}opt = torch.optim.SGD(model.parameters(), lr=1)\n"
FORMAT = "memory_format=torch.channels_last"
REST = "    loss.backward()\n    opt.step()\n"

REWRITTEN = {
    "one line for both": (
        HEAD + "for x, y in loader:\n    x, y = x.to(dev), y.to(dev)\n    loss = f(model(x), y)\n" + REST,
        SET + f"for x, y in loader:\n    x, y = x.to(dev, {FORMAT}), y.to(dev)\n    loss = f(model(x), y)\n" + REST,
    ),
    "a line each, not blocking": (
        HEAD + "for x, y in loader:\n    x = x.to(dev, copy=True)\n    loss = f(model(x), y)\n" + REST,
        SET + f"for x, y in loader:\n    x = x.to(dev, copy=True, {FORMAT})\n    loss = f(model(x), y)\n" + REST,
    ),
    "cuda()": (
        HEAD + "for x, y in loader:\n    x = x.cuda()\n    loss = f(model(x), y)\n" + REST,
        SET + f"for x, y in loader:\n    x = x.cuda().to({FORMAT})\n    loss = f(model(x), y)\n" + REST,
    ),
    "on the way in": (
        HEAD + "for x, y in loader:\n    loss = f(model(x), y)  # é\n" + REST,
        SET + f"for x, y in loader:\n    loss = f(model(x.to({FORMAT})), y)  # é\n" + REST,
    ),
    "moved in the call": (
        HEAD + "for x, y in loader:\n    loss = f(model(x.to(dev)), y)\n" + REST,
        SET + f"for x, y in loader:\n    loss = f(model(x.to(dev, {FORMAT})), y)\n" + REST,
    ),
    "arithmetic on the way in": (
        HEAD + "for x, y in loader:\n    loss = f(model(x / 255), y)\n" + REST,
        SET + f"for x, y in loader:\n    loss = f(model((x / 255).to({FORMAT})), y)\n" + REST,
    ),
    "another name for torch": (
        HEAD.replace("import torch", "import torch as th").replace("torch.optim", "th.optim")
        + "for x, y in loader:\n    loss = f(model(x), y)\n" + REST,
        SET.replace("import torch", "import torch as th").replace("= torch.", "= th.").replace("=torch.", "=th.")
        + f"for x, y in loader:\n    loss = f(model(x.to({FORMAT.replace('torch', 'th')})), y)\n" + REST,
    ),
    "Windows line ends": (
        (HEAD + "for x, y in loader:\n    loss = f(model(x), y)\n" + REST).replace("\n", "\r\n"),
        (SET + f"for x, y in loader:\n    loss = f(model(x.to({FORMAT})), y)\n" + REST).replace("\n", "\r\n"),
    ),
}  # fmt: skip

REFUSED = {
    "no model": (
        "import torch\nfor x, y in loader:\n    loss = f(x, y)\n    loss.backward()\n    opt.step()\n",
        "",
    ),
    "nothing given": (
        HEAD + "for x, y in loader:\n    loss = model(image=x, label=y)\n" + REST,
        "is unknown",
    ),
    "unpacked": (HEAD + "for batch in loader:\n    loss = f(model(*batch))\n" + REST, "is unknown"),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten(workshop, name):
    before, after = REWRITTEN[name]
    edited = workshop(before, optimizers=(("SGD", 3),)).edited("channels_last")
    ast.parse(edited)
    assert edited == after
    assert workshop(edited, optimizers=(("SGD", 4),)).edited("channels_last") == edited


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_snippet(workshop, name):
    source, reason = REFUSED[name]
    planned = workshop(source).plan("channels_last")
    assert planned.edits == ()
    assert reason in planned.refused[0].reason
    assert "torch.channels_last" in planned.refused[0].snippet


def test_together_with_bfloat16(workshop):
    source, _ = REWRITTEN["on the way in"]
    edited = workshop(source, optimizers=(("SGD", 3),)).edited("channels_last", "amp=bf16")
    assert f"        loss = f(model(x.to({FORMAT})), y)  # é\n" in edited
    assert "with torch.autocast(" in edited
    assert edited == workshop(source, optimizers=(("SGD", 3),)).edited("amp=bf16", "channels_last")


def viewing(shop, *size: int):
    """The same, of a run in whose forward pass line 4 viewed a tensor of this size."""
    record = Record("aten::view", RecordKind.OPERATOR, Phase.FORWARD, "main", 0, 0.0, 1.0, line=0, shape=0)
    made = replace(
        shop.profile.trace,
        records=(record,),
        lines=(CodeLine(shop.profile.script, 4),),
        shapes=(OperatorShape("aten::view", (size,), ("float32",)),),
    )
    return replace(shop, profile=replace(shop.profile, trace=made))


def test_a_view_that_needs_channels_first_is_a_reshape(workshop) -> None:
    source = HEAD + (
        "def flat(x): return x.view(len(x), -1)\nfor x, y in loader:\n    loss = f(model(x), y)\n" + REST
    )
    shop = workshop(source)
    assert "x.reshape(len(x), -1)" in viewing(shop, 8, 16, 4, 4).edited("channels_last")
    for size in ((8, 16, 1, 1), (8, 1, 4, 4), (8, 256)):
        assert "x.view(len(x), -1)" in viewing(shop, *size).edited("channels_last")
    for other in ("torch.flatten(x, 1)", "x.view(torch.int32)"):
        assert other in viewing(workshop(source.replace("x.view(len(x), -1)", other)), 8, 16, 4, 4).edited(
            "channels_last"
        )


def test_every_trained_model_is_converted(workshop) -> None:
    made = "import torch\nnetG = G()\nnetD = D().to(device)\n"
    rest = (
        "first = torch.optim.Adam(netD.parameters())\nsecond = torch.optim.Adam(netG.parameters())\n"
        "for x in loader:\n    loss = f(netD(x), netD(netG(noise())))\n    loss.backward()\n"
        "    first.step()\n    second.step()\n"
    )
    shop = workshop(made + rest, optimizers=(("Adam", 4), ("Adam", 5)))
    assert shop.edited("channels_last") == (
        "import torch\nnetG = G()\nnetG = netG.to(memory_format=torch.channels_last)\n"
        "netD = D().to(device)\nnetD = netD.to(memory_format=torch.channels_last)\n" + rest
    )


LIGHTNING = (
    "import torch\nimport lightning as L\nclass Net(L.LightningModule):\n"
    "    def training_step(self, batch):\n        return self(batch).mean()\n"
    "    def configure_optimizers(self):\n        return torch.optim.Adam(self.parameters())\n"
    "net = Net()\ntrainer = L.Trainer(max_epochs=1)\ntrainer.fit({}, loader)\n"
)


def test_a_model_of_lightning_is_converted_before_fit(workshop) -> None:
    shop = workshop(LIGHTNING.format("net"), optimizers=(("Adam", 7),))
    line = "net = net.to(memory_format=torch.channels_last)\n"
    text = shop.edited("channels_last")
    assert text == next(iter(shop.files.values())).replace("trainer.fit", f"{line}trainer.fit")
    made = replace(shop, files=dict.fromkeys(shop.files, text))
    assert made.plan("channels_last").edits == ()
    assert made.after(made.without("channels_last")).files == shop.files
    unnamed = workshop(LIGHTNING.format("Net()"), optimizers=(("Adam", 7),))
    assert "`Net()` is not a variable" in unnamed.reason("channels_last")
