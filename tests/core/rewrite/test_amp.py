"""Forward pass and loss go under autocast, as the script is written; what is not plain is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import Device, TorchSettings
from skyline.trace.record import CodeLine
from skyline.trace.trial import Choices, FailedTrial

HEAD = "import torch\nmodel = make()\noptimizer = torch.optim.Adam(model.parameters())\n"

REWRITTEN = {
    "plain": (
        (
            "for x, y in loader:\n    out = model(x)\n"
            "    loss = f(out, y)\n    loss.backward()\n    optimizer.step()\n"
        ),
        (
            'for x, y in loader:\n    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'
            "        out = model(x)\n        loss = f(out, y)\n    loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "device by name": (
        (
            "device = torch.device('cuda')\nfor x, y in loader:\n"
            "\tx = x.to(device)\n\tloss = f(model(x), y)  # é\n\n"
            "\tloss.backward()\n\toptimizer.step()\n"
        ),
        (
            "device = torch.device('cuda')\nfor x, y in loader:\n\tx = x.to(device)\n"
            "\twith torch.autocast(device_type=device.type, dtype=torch.bfloat16):\n"
            "\t\tloss = f(model(x), y)  # é\n\n"
            "\tloss.backward()\n\toptimizer.step()\n"
        ),
    ),
    "device as text": (
        (
            "device = 'cuda:1'\nfor x, y in loader:\n"
            "    loss = f(model(x.to(device)), y)\n    loss.backward(); optimizer.step()\n"
        ),
        (
            "device = 'cuda:1'\nfor x, y in loader:\n"
            "    with torch.autocast(device_type=torch.device(device).type, dtype=torch.bfloat16):\n"
            "        loss = f(model(x.to(device)), y)\n    loss.backward(); optimizer.step()\n"
        ),
    ),
    "method and attributes, a move to a GPU that does not run": (
        (
            "class T:\n  def fit(self):\n    for x in self.loader:\n"
            "      if self.on_gpu: x = x.cuda()\n"
            "      self.loss = self.model(x).mean()\n"
            "      self.loss.backward()\n      self.optimizer.step()\n"
        ),
        (
            "class T:\n  def fit(self):\n    for x in self.loader:\n"
            "      if self.on_gpu: x = x.cuda()\n"
            '      with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'
            "        self.loss = self.model(x).mean()\n"
            "      self.loss.backward()\n      self.optimizer.step()\n"
        ),
    ),
    "one line": (
        "for x in loader: loss = model(x).sum(); loss.backward(); optimizer.step()\n",
        (
            'for x in loader:\n    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'
            "        loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "semicolons": (
        (
            "for x in loader:\n"
            "    optimizer.zero_grad(); loss = model(x).sum(); loss.backward()\n    optimizer.step()\n"
        ),
        (
            "for x in loader:\n    optimizer.zero_grad()\n"
            '    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'
            "        loss = model(x).sum()\n"
            "    loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "continuation lines and text": (
        (
            "for x in loader:\n    out = model(\n  x)\n"
            "    # so far\n    note = '''\n  as it is\n'''\n    loss = f(out, \\\n"
            "      note)\n    loss.backward()\n    optimizer.step()\n"
        ),
        (
            "for x in loader:\n"
            '    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n        out = model(\n'
            "      x)\n        # so far\n        note = '''\n  as it is\n'''\n        loss = f(out, \\\n"
            "          note)\n    loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "in functions": (
        (
            "def losses(model, x):\n    return model(x).sum()\n@timed\ndef step(model, x, optimizer):\n"
            "    loss = losses(model, x)\n    loss.backward()\n    optimizer.step()\n"
            "for x in loader:\n    step(model, x, optimizer)\n"
        ),
        (
            "def losses(model, x):\n    return model(x).sum()\n@timed\ndef step(model, x, optimizer):\n"
            '    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'
            "        loss = losses(model, x)\n"
            "    loss.backward()\n    optimizer.step()\nfor x in loader:\n    step(model, x, optimizer)\n"
        ),
    ),
    "on a condition": (
        (
            "for x in loader:\n    if big:\n        out = model(x, 2)\n"
            "    else:\n        out = model(x)\n    loss = f(out)\n"
            "    loss.backward()\n    optimizer.step()\n"
        ),
        (
            "for x in loader:\n"
            '    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n        if big:\n'
            "            out = model(x, 2)\n        else:\n"
            "            out = model(x)\n        loss = f(out)\n"
            "    loss.backward()\n    optimizer.step()\n"
        ),
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_under_autocast(workshop, name: str, newline: str) -> None:
    before, after = (HEAD + text for text in REWRITTEN[name])
    before, after = before.replace("\n", newline), after.replace("\n", newline)
    shop = workshop(before, optimizers=(("Adam", 3),))
    assert shop.edited("amp=bf16") == after
    compile(after, "train.py", "exec", dont_inherit=True)
    again = replace(shop, files={**shop.files, "/project/train.py": after})
    assert again.plan("amp=bf16").edits == ()


NETS = {
    "moved when it is made, parameters in a list": (
        (
            "class Eyes(torch.nn.Module):\n    pass\neyes = Eyes().to(device)\n"
            "weights = list(eyes.parameters())\noptimizer = torch.optim.Adam(weights)\n"
            "for x in loader:\n    loss = f(eyes(x))\n    loss.backward()\n"
        ),
        "        loss = f(eyes(x))\n",
    ),
    "results are collected in a tensor": (
        (
            "model = make()\noptimizer = torch.optim.Adam(model.parameters())\n"
            "for x in loader:\n    out = torch.zeros(9)\n    for i in range(9):\n        out[i], s = model(x, s)\n"
            "    loss = f(out)\n    loss.backward()\n"
        ),
        "        for i in range(9):\n            out[i], s = model(x, s)\n        loss = f(out)\n",
    ),
    "a module that computes its own loss": (
        (
            "class Net(torch.nn.Module):\n    def loss(self, x):\n        return self.forward(x).sum()\n"
            "    def fit(self, loader):\n        optimizer = torch.optim.Adam(self.weights)\n"
            "        for x in loader:\n            cost = self.loss(x)\n            cost.backward()\n"
            "            optimizer.step()\n"
        ),
        "                cost = self.loss(x)\n",
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_the_call_of_the_model_is_found(workshop, name: str) -> None:
    source, inside = NETS[name]
    edited = workshop("import torch\n" + source).edited("amp")
    assert 'with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n' + inside in edited


def test_the_import_is_found_or_made(workshop) -> None:
    loop = "for x in loader:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"
    assert "with th.autocast(" in workshop("import torch as th\n" + loop).edited("amp")
    assert (
        workshop('"""Trains."""\nfrom torch import nn\n' + loop)
        .edited("amp")
        .startswith('"""Trains."""\nfrom torch import nn\nimport torch\n')
    )


FP16 = {
    "plain, with clipping": (
        (
            "for epoch in range(2):\n  for x, y in loader:\n"
            "    optimizer.zero_grad()\n    loss = f(model(x), y)\n"
            "    loss.backward()\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), 1)\n    optimizer.step()  # now\n"
        ),
        (
            'scaler = torch.amp.GradScaler("cuda")\n'
            "for epoch in range(2):\n  for x, y in loader:\n    optimizer.zero_grad()\n"
            '    with torch.autocast(device_type="cuda", dtype=torch.float16):\n      loss = f(model(x), y)\n'
            "    scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
            "    scaler.step(optimizer)  # now\n    scaler.update()\n"
        ),
    ),
    "a function per epoch": (
        (
            "def epoch(model, optimizer):\n    for x in loader:\n"
            "        loss = model(x).sum()\n        loss.backward()\n"
            "        optimizer.step()\nfor _ in range(3):\n    epoch(model, optimizer)\n"
        ),
        (
            'scaler = torch.amp.GradScaler("cuda")\ndef epoch(model, optimizer):\n    for x in loader:\n'
            '        with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
            "            loss = model(x).sum()\n"
            "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
            "for _ in range(3):\n    epoch(model, optimizer)\n"
        ),
    ),
    "a function in a loop": (
        (
            "def train():\n    for x in loader:\n        loss = model(x)\n        loss.backward()\n"
            "        optimizer.step()\nwhile True:\n    train()\n"
        ),
        (
            'scaler = torch.amp.GradScaler("cuda")\ndef train():\n    for x in loader:\n'
            '        with torch.autocast(device_type="cuda", dtype=torch.float16):\n            loss = model(x)\n'
            "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
            "while True:\n    train()\n"
        ),
    ),
    "another scaler": (
        (
            "scaler = StandardScaler()\n"
            "for x in loader: loss = model(x).sum(); loss.backward(); optimizer.step()\n"
        ),
        (
            'scaler = StandardScaler()\ngrad_scaler = torch.amp.GradScaler("cuda")\nfor x in loader:\n'
            '    with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
            "        loss = model(x).sum()\n"
            "    grad_scaler.scale(loss).backward()\n    grad_scaler.step(optimizer); grad_scaler.update()\n"
        ),
    ),
}


@pytest.mark.parametrize("name", FP16)
def test_half_precision_gets_a_scaler(workshop, name: str) -> None:
    before, after = (HEAD + text for text in FP16[name])
    shop = workshop(before, optimizers=(("Adam", 3),))
    environment = replace(shop.profile.environment, device=Device("GPU", "cuda"))
    shop = replace(shop, profile=replace(shop.profile, environment=environment))
    assert shop.edited("amp=fp16") == after
    compile(after, "train.py", "exec", dont_inherit=True)
    again = replace(shop, files={**shop.files, "/project/train.py": after})
    assert again.plan("amp=fp16").edits == ()


@pytest.mark.parametrize(
    ("loop", "value", "said"),
    [
        (
            "for x in l:\n    a = model(x)\n    a.backward()\n    b = model(x)\n    b.backward()\n",
            "fp16",
            "more than one",
        ),
        (
            "for x in l:\n    a = model(x)\n    a.backward()\n    b = g(x)\n    b.backward()\n",
            "bf16",
            "gives `b` was not found",
        ),
        (
            "for x in l:\n    model(x).sum().backward()\n    optimizer.step()\n",
            "bf16",
            "where `backward()` is called",
        ),
        (
            "for x in l:\n    with autocast('cuda'):\n        loss = model(x)\n    loss.backward()\n",
            "bf16",
            "already",
        ),
        (
            (
                "c = torch.autocast('cuda')\nfor x in l:\n"
                "    with c:\n        loss = model(x)\n    loss.backward()\n"
            ),
            "",
            "chosen",
        ),
        (
            (
                "device = torch.device('cuda')\nfor x in l:\n"
                "    loss = F.binary_cross_entropy(model(x.to(device)), y)\n    loss.backward()\n"
            ),
            "bf16",
            "does not work",
        ),
        (
            (
                "for x in l:\n    out = model(x)\n"
                "    loss = out.sum()\n    loss.backward()\n    a = out.numpy()\n"
            ),
            "",
            "NumPy",
        ),
        (
            "for x in l:\n    loss = g(x)\n    loss.backward()\n    optimizer.step()\n",
            "bf16",
            "call of the model",
        ),
        (
            "for x in l:\n    loss = model(x)\n    loss.backward()\n    n = optimizer.step()\n",
            "fp16",
            "The result of `optimizer.step()` is used",
        ),
        (
            "for x in l:\n    loss = model(x)\n    loss.backward(g)\n    optimizer.step()\n",
            "fp16",
            "is more than a plain backward pass",
        ),
        (
            "def go():\n    optimizer.step()\nfor x in l:\n    loss = model(x)\n    loss.backward()\n    go()\n",
            "fp16",
            "are not in the same function",
        ),
        ("x = 1\n", "bf16", "No loop"),
        (
            "for x in l:\n    loss = model(x)\n    loss.backward()\n    optimizer.step(closure)\n",
            "fp16",
            "closure",
        ),
        (
            (
                "for x in l:\n    loss = model(x)\n"
                "    loss.backward()\n    p.grad.mul_(2)\n    optimizer.step()\n"
            ),
            "fp16",
            "grad",
        ),
        ("for x in l:\n    loss = model(x)\n    loss.backward()\n", "fp16", "optimizer.step()"),
        (
            "for x in l:\n    loss = model(x)\n    loss.backward()\n    a(p.grad)\n    optimizer.step()\n",
            "fp16",
            "where it would be scaled",
        ),
        (
            (
                "for x in l:\n    loss = model(x)\n    loss.backward()\n    clip_grad_norm_(p, 1)\n"
                "    if x: optimizer.step()\n"
            ),
            "fp16",
            "another block",
        ),
        (
            "for x in l:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n",
            "int8",
            "number format",
        ),
    ],
)
def test_refused_with_the_reason_and_what_to_write(workshop, loop: str, value: str, said: str) -> None:
    shop = workshop(HEAD + loop, optimizers=(("Adam", 3),))
    assert said in shop.reason(f"amp={value}")
    assert "torch.autocast" in shop.plan(f"amp={value}").refused[0].snippet


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (
            "from lightning import Trainer\nTrainer(max_epochs=1)\n",
            "bf16",
            'max_epochs=1, precision="bf16-mixed")',
        ),
        ("import lightning as L\nL.Trainer(precision='32-true')\n", "fp16", 'Trainer(precision="16-mixed")'),
        ("from transformers import TrainingArguments as A\nA('out')\n", "bf16", "A('out', bf16=True)"),
        (
            "from accelerate import Accelerator\na = Accelerator()\n",
            "bf16",
            'Accelerator(mixed_precision="bf16")',
        ),
        (
            "from lightning.fabric import Fabric\nf = Fabric(\n    devices=1,\n)\n",
            "bf16",
            '\n    precision="bf16-mixed",\n)',
        ),
    ],
)
def test_frameworks_have_a_switch(workshop, before: str, value: str, after: str) -> None:
    assert after in workshop(before).edited(f"amp={value}")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("from transformers import TrainingArguments as A\nA('out', fp16=True)\n", "`fp16=True`"),
        ("from lightning import Trainer\nTrainer(precision=p)\n", "when the script runs"),
        ("from lightning import Trainer\nTrainer(**options)\n", "may set"),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n", "outside the program"),
    ],
)
def test_switches_that_cannot_be_set(workshop, source: str, said: str) -> None:
    assert said in workshop(source).reason("amp=bf16")


@pytest.mark.parametrize("switch", ["args.amp", "False"])
def test_autocast_that_its_option_switched_off_is_no_autocast(workshop, switch: str) -> None:
    """The run told that no module ran under autocast: the change is asked for and not there."""
    shop = workshop(
        HEAD
        + "for x in loader:\n"
        + f'    with torch.autocast(device_type="cuda", dtype=torch.bfloat16, enabled={switch}):\n'
        + "        loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    off = replace(shop, profile=replace(shop.profile, settings=TorchSettings(autocast="")))
    assert f"`enabled={switch}` switched autocast off" in off.reason("amp")
    if switch != "False":
        on = replace(shop, profile=replace(shop.profile, settings=TorchSettings(autocast="bfloat16")))
        assert on.plan("amp").refused == ()


def test_autocast_under_which_the_script_raised_an_exception_is_refused(workshop) -> None:
    shop = workshop(
        HEAD + "for x in loader:\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    failed = FailedTrial(
        Choices(number_format="bfloat16"), "TypeError: no such type", CodeLine("/project/train.py", 5)
    )
    shop = replace(shop, profile=replace(shop.profile, failed_trials=(failed,)))
    (refused,) = shop.plan("amp=bf16").refused
    assert "Tried under autocast, train.py:5 raised TypeError: no such type" in str(refused)
    assert shop.plan("amp=fp16").refused == ()


@pytest.mark.parametrize(
    ("read", "refused"),
    [
        ("(out > 0.5).float().cpu()", False),
        ("(out > 0.5).cpu()", False),
        ("out.detach().float()", False),
        ("out.argmax(1)[0]", False),
        ("out.detach().cpu()", True),
        ("(out + out)", True),
    ],
)
def test_values_that_are_not_in_bfloat16_may_be_read_by_numpy(workshop, read: str, refused: bool) -> None:
    shop = workshop(
        HEAD
        + "for x in loader:\n    out = model(x)\n    loss = out.sum()\n    loss.backward()\n    optimizer.step()\n"
        + f"    seen = {read}.numpy()\n"
    )
    assert bool(shop.plan("amp=bf16").refused) is refused
