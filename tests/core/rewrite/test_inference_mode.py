"""Evaluation is put where no gradients are recorded, in the mode that its results allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import CallFact
from skyline.trace.record import CodeLine

HEAD = "import torch\n"
LOOP = "for x in loader:\n    model(x).sum().backward()\n    opt.step()\n"
EVALUATE = "def evaluate(model):\n    model.eval()\n    right = 0\n    for x, y in val:\n"
HITS = "        right += (model(x) == y).sum().item()\n    return right / len(val)\n"

NUMBERS = """\
def evaluate(model):
    model.eval()
    loss, right = 0.0, 0
    for x, y in val:
        loss += model(x).item()
        right -= -1
    both = (loss / len(val), [right])
    return {"both": both, "best": max(loss, 1) if right else round(loss)}
"""
REWRITTEN = {
    "numbers leave it": (EVALUATE + HITS, "@torch.inference_mode()\n" + EVALUATE + HITS),
    "tensors leave it": (
        "def test(net):\n\tnet.eval()\n\treturn net(x)  # é\n",
        "@torch.no_grad()\ndef test(net):\n\tnet.eval()\n\treturn net(x)  # é\n",
    ),
    "a comparison of numbers leaves it": (
        EVALUATE + "        right += 1\n    return right > 3\n",
        "@torch.inference_mode()\n" + EVALUATE + "        right += 1\n    return right > 3\n",
    ),
    "a comparison of tensors leaves it": (
        EVALUATE + "        y = model(x)\n    return y > 3\n",
        "@torch.no_grad()\n" + EVALUATE + "        y = model(x)\n    return y > 3\n",
    ),
    "numbers of many kinds": (NUMBERS, "@torch.inference_mode()\n" + NUMBERS),
    "a sum that a tensor computes": (
        EVALUATE + "        y = model(x)\n    return y.sum()\n",
        "@torch.no_grad()\n" + EVALUATE + "        y = model(x)\n    return y.sum()\n",
    ),
    "tensors that are unpacked": (
        EVALUATE + "        right, other = model(x)\n    return right\n",
        "@torch.no_grad()\n" + EVALUATE + "        right, other = model(x)\n    return right\n",
    ),
    "a part of a tensor": (
        EVALUATE + "        y = model(x)\n    return y[0]\n",
        "@torch.no_grad()\n" + EVALUATE + "        y = model(x)\n    return y[0]\n",
    ),
    "a list that keeps tensors": (
        EVALUATE + "        kept.append(model(x))\n",
        "@torch.no_grad()\n" + EVALUATE + "        kept.append(model(x))\n",
    ),
    "a list that keeps numbers": (
        EVALUATE + "        kept.append(model(x).item())\n",
        "@torch.inference_mode()\n" + EVALUATE + "        kept.append(model(x).item())\n",
    ),
    "a function inside": (
        EVALUATE + "        later(lambda: model(x))\n",
        "@torch.no_grad()\n" + EVALUATE + "        later(lambda: model(x))\n",
    ),
    "nothing leaves it": (
        EVALUATE + "        print(model(x))\n",
        "@torch.inference_mode()\n" + EVALUATE + "        print(model(x))\n",
    ),
    "a method that keeps": (
        "class T:\n  def validate(self):\n    self.net.eval()\n    self.out = self.net(x)\n",
        "class T:\n  @torch.no_grad()\n  def validate(self):\n    self.net.eval()\n    self.out = self.net(x)\n",
    ),
    "decorated": (
        (
            "class T:\n    @staticmethod\n    def test(net):\n        '''Text.'''\n        net.eval()\n"
            "        print(net(x))\n"
        ),
        (
            "class T:\n    @staticmethod\n    def test(net):\n        '''Text.'''\n"
            "        with torch.inference_mode():\n            net.eval()\n            print(net(x))\n"
        ),
    ),
    "a sum of tensors": (
        EVALUATE.replace("right", "loss") + "        loss += f(model(x), y)\n    return loss\n",
        "@torch.no_grad()\n"
        + EVALUATE.replace("right", "loss")
        + "        loss += f(model(x), y)\n    return loss\n",
    ),
    "off already, by decorator": ("@torch.no_grad()\n" + EVALUATE + HITS,) * 2,
    "off already, inside": (
        "def test(net):\n    net.eval()\n    with torch.inference_mode():\n        print(net(x))\n",
    )
    * 2,
    "off already, around the call": (EVALUATE + HITS + "with torch.no_grad():\n    evaluate(model)\n",) * 2,
}

KEEPS = "class Net(torch.nn.Module):\n    def forward(self, x):\n        self.cache = x\n        return x\n"
REWRITTEN |= {
    "a model that keeps": (KEEPS + EVALUATE + HITS, KEEPS + "@torch.no_grad()\n" + EVALUATE + HITS),
    "a model of the same package": (
        "from .zoo import Net\n" + EVALUATE + HITS,
        "from .zoo import Net\n@torch.inference_mode()\n" + EVALUATE + HITS,
    ),
    "a library that defines no models": (
        "import torchvision.transforms\n" + EVALUATE + HITS,
        "import torchvision.transforms\n@torch.inference_mode()\n" + EVALUATE + HITS,
    ),
    "a library's model by its package": (
        "import zoo.nets\n" + EVALUATE + HITS,
        "import zoo.nets\n@torch.no_grad()\n" + EVALUATE + HITS,
    ),
    "a library's model": (
        "from zoo import Net\n" + EVALUATE + HITS,
        "from zoo import Net\n@torch.no_grad()\n" + EVALUATE + HITS,
    ),
}

REFUSED = {
    "nowhere": ("", "No evaluation"),
    "one by one": ("def test(net):\n    net.eval()\n    yield net(x)\n", "is a generator"),
    "trains itself": ("def test(net):\n    net.eval()\n    net(x).backward()\n", "No evaluation"),
    "a framework's": ("import lightning as L\nL.Trainer().fit(m)\n" + EVALUATE + HITS, "by itself"),
}


@pytest.mark.parametrize("shape", REWRITTEN)
def test_rewritten(workshop, shape):
    before, after = REWRITTEN[shape]
    assert workshop(HEAD + before + LOOP).edited("inference_mode") == HEAD + after + LOOP
    assert workshop(HEAD + after + LOOP).edited("inference_mode") == HEAD + after + LOOP


def test_a_model_of_the_program_is_read(workshop):
    source = HEAD + "from nets import Net\n" + EVALUATE + HITS + LOOP
    plain = workshop(source, others={"nets.py": "class Net: pass\n"})
    assert "@torch.inference_mode()\n" in plain.edited("inference_mode")
    keeping = workshop(source, others={"nets.py": "import torch\n" + KEEPS})
    assert "@torch.no_grad()\n" in keeping.edited("inference_mode")


@pytest.mark.parametrize("shape", REFUSED)
def test_refused(workshop, shape):
    before, reason = REFUSED[shape]
    assert reason in workshop(HEAD + before + LOOP).reason("inference_mode")


def seen(shop, line, **further):
    options = {"grad_enabled": True, "training": False, "module": "Net", "inference_mode": False, **further}
    call = CallFact("eval forward", 1.0, CodeLine("/project/train.py", line), options)
    return replace(shop, profile=replace(shop.profile, calls=(call,)))


def test_a_loop_that_the_run_told_of_is_put_under_no_grad(workshop):
    source = HEAD + LOOP + "    model.eval()\n    for y in val:\n        out = model(y)\n    print(out)\n"
    shop = seen(workshop(source), 7)
    assert shop.edited("inference_mode") == (
        HEAD
        + LOOP
        + "    model.eval()\n    with torch.no_grad():\n        for y in val:\n            out = model(y)\n"
        "    print(out)\n"
    )


def test_a_single_statement_too(workshop):
    source = HEAD + LOOP + "    out = model(y)\n    print(out)\n"
    after = HEAD + LOOP + "    with torch.no_grad():\n        out = model(y)\n    print(out)\n"
    assert seen(workshop(source), 5).edited("inference_mode") == after


def test_a_function_that_the_run_told_of_is_decorated(workshop):
    source = HEAD + "def score(net):\n    return net(x).sum().item()\n" + LOOP
    assert seen(workshop(source), 3).edited("inference_mode") == (
        HEAD + "@torch.inference_mode()\ndef score(net):\n    return net(x).sum().item()\n" + LOOP
    )


@pytest.mark.parametrize("shared", ["line", "function"])
def test_a_function_that_training_calls_as_well_keeps_its_gradients(workshop, shared):
    """A method that encodes: without gradients in it the encoder would no longer train."""
    source = HEAD + "def encode(net, x):\n    return net(x)\n" + LOOP
    shop = seen(workshop(source), 3, trained_here=shared)
    assert "training calls the model here" in shop.reason("inference_mode")


def test_a_line_of_both_passes_keeps_its_gradients(workshop):
    phases = "for phase in phases:\n    out = model(x)\n    if phase:\n        out.backward()\n"
    shop = seen(workshop(HEAD + phases), 3, trained_here="line")
    assert "training calls the model here" in shop.reason("inference_mode")


def test_statements_next_to_training_are_put_under_no_grad(workshop):
    """The function trains, and only the statements that evaluate are put under it."""
    source = HEAD + LOOP + "    out = model(y)\n    print(out)\n"
    after = HEAD + LOOP + "    with torch.no_grad():\n        out = model(y)\n    print(out)\n"
    assert seen(workshop(source), 5, trained_here="function").edited("inference_mode") == after
