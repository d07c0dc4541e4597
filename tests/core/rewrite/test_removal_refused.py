"""Changes that are not plain stay in the code; the refusal names their place and the reason."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import without_argument
from skyline.trace.facts import CallFact, TorchSettings

SCRIPT = "/project/train.py"
HEAD = "import torch\nmodel = make()\noptimizer = torch.optim.Adam(model.parameters())\n"
STEP = "    loss.backward()\n    optimizer.step()\n"
LOOP = "for x, y in loader:\n    loss = f(model(x), y)\n" + STEP

REFUSED = {
    "a decision of the run": (
        "cpu_threads",
        "import torch\nn = torch.set_num_threads(2)\n",
        "part of a larger expression",
    ),
    "an option that compiles": (
        "compile",
        HEAD + "if args.compile:\n    model = torch.compile(model)\n" + LOOP,
        "on a condition",
    ),
    "the model inside": (
        "compile",
        HEAD + "model = torch.compile(model)\ntorch.save(model._orig_mod, 'm')\n" + LOOP,
        "`model._orig_mod`",
    ),
    "an option of autocast": (
        "amp",
        HEAD
        + "for x, y in loader:\n    with torch.autocast('cuda', enabled=args.amp):\n        loss = f(model(x), y)\n"
        + STEP,
        "`enabled=args.amp` decides",
    ),
    "autocast that is chosen elsewhere": (
        "amp",
        HEAD
        + "ctx = torch.autocast('cuda')\nfor x, y in loader:\n    with ctx:\n        loss = f(model(x), y)\n"
        + STEP,
        "chosen elsewhere",
    ),
    "autocast by a name": (
        "amp",
        HEAD
        + "for x, y in loader:\n    with torch.autocast('cuda') as c:\n        loss = f(model(x), y)\n"
        + STEP,
        "`c` names what `with torch.autocast('cuda')` gives",
    ),
    "autocast among others, with a comment": (
        "amp",
        HEAD
        + "for x, y in loader:\n    with (torch.autocast('cuda'),  # half\n          timer):\n"
        + "        loss = f(model(x), y)\n"
        + STEP,
        "in a way that is not plain",
    ),
    "a comment in the call": (
        "compile",
        HEAD + "fast = torch.compile(  # quick\n    model\n)\n" + LOOP,
        "has a comment inside",
    ),
    "a scaler that is saved": (
        "amp",
        HEAD
        + "scaler = torch.amp.GradScaler('cuda')\nfor x, y in loader:\n    with torch.autocast('cuda'):\n"
        "        loss = f(model(x), y)\n    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n"
        "    scaler.update()\ntorch.save(scaler.state_dict(), 's')\n",
        "`scaler.state_dict()` uses the gradient scaler",
    ),
    "numbers for NumPy": (
        "inference_mode",
        HEAD
        + "@torch.no_grad()\ndef evaluate(model):\n    model.eval()\n    return model(x).numpy()\n"
        + LOOP,
        "may fail on tensors",
    ),
    "attention": (
        "sdpa",
        "import torch.nn.functional as F\ny = F.scaled_dot_product_attention(q, k, v)\n",
        "does not contain",
    ),
    "two ways of calling a block": (
        "checkpointing",
        (
            "from torch.utils.checkpoint import checkpoint\ndef forward(self, x):\n"
            "    if self.again:\n        x = checkpoint(self.b, x)\n    else:\n        x = self.b(x)\n    return x\n"
        ),
        "`self.again` decides",
    ),
    "more than a block": (
        "checkpointing",
        (
            "from torch.utils.checkpoint import checkpoint\ndef forward(self, x):\n"
            "    return checkpoint(lambda y: self.b(y) + y, x)\n"
        ),
        "computes more than a block again",
    ),
    "an optimizer for sparse gradients": (
        "sparse_embedding",
        "import torch\nm = torch.nn.Embedding(1, 1, sparse=True)\no = torch.optim.SparseAdam(m.parameters())\n",
        "SparseAdam",
    ),
    "a layout that is made": (
        "channels_last",
        HEAD
        + "x = torch.empty(1, 3, 4, 4, memory_format=torch.channels_last)\nl = torch.channels_last\n"
        + LOOP,
        "is not the argument",
    ),
    "gradients that are set to None before there are any": (
        "zero_grad",
        HEAD + "for x in loader:\n    w.grad = None\n    loss = model(x)\n" + STEP,
        "may come before there is a gradient",
    ),
    "gradients that are set to None together": (
        "zero_grad",
        HEAD + LOOP + "    v.grad = w.grad = None\n",
        "`v.grad = w.grad = None` may come before",
    ),
    "workers with a timeout": (
        "num_workers",
        "l = DataLoader(d, num_workers=2, timeout=30)\n",
        "`timeout=30`",
    ),
    "parts in another way": (
        "grad_accumulation",
        HEAD
        + "for x in loader:\n    for p in x.chunk(4):\n        loss = model(p) / 4\n        loss.backward()\n"
        + "    optimizer.step()\n",
        "not one that Skyline wrote",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_plain_is_refused_with_its_place(workshop, case: str) -> None:
    name, source, said = REFUSED[case]
    shop = workshop(source)
    settings = TorchSettings(autocast="float16")
    facts = (CallFact("compile", 0.0, None, {}),)
    shop = replace(shop, profile=replace(shop.profile, settings=settings, calls=facts))
    assert shop.present(name) is not None
    planned = shop.without(name)
    assert planned.edits == ()
    assert said in planned.refused[0].reason
    assert f"({SCRIPT}:" in planned.refused[0].reason


def test_an_argument_that_is_not_given_is_nothing_to_take_out(workshop) -> None:
    context = workshop("import torch\noptimizer = torch.optim.Adam(ps)\n").context()
    ((module, call),) = context.program.nodes_of(ast.Call)
    with pytest.raises(RewriteRefused, match=r"`torch\.optim\.Adam` is not given `fused`"):
        without_argument(context, module, call, "fused", off="False")
