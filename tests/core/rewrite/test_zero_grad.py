"""Gradients are set to None, in calls and in loops by hand; code that may need the zeros is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

HEAD = "import torch\nmodel = make()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
REST = "    loss = f(model(x))\n    loss.backward()\n    optimizer.step()\n"

REWRITTEN = {
    "by name": ("    optimizer.zero_grad(set_to_none=False)\n", "    optimizer.zero_grad()\n"),
    "by place": ("    optimizer.zero_grad(False)  # zeros\n", "    optimizer.zero_grad(True)  # zeros\n"),
    "of the model": ("    model.zero_grad( set_to_none = False )\n", "    model.zero_grad()\n"),
    "with a comment inside": (
        "    optimizer.zero_grad(\n        set_to_none=False,  # why\n    )\n",
        "    optimizer.zero_grad(\n        set_to_none=True,  # why\n    )\n",
    ),
    "by hand": (
        "    for p in model.parameters():\n        p.grad.zero_()\n",
        "    for p in model.parameters():\n        p.grad = None\n",
    ),
    "by hand, guarded": (
        (
            "    for n, p in model.named_parameters():\n        if p.grad is not None:\n"
            "            p.grad.data.zero_()\n"
        ),
        (
            "    for n, p in model.named_parameters():\n        if p.grad is not None:\n"
            "            p.grad = None\n"
        ),
    ),
    "by hand, on one line": (
        "    for p in ps: p.grad.fill_(0)\n",
        "    for p in ps: p.grad = None\n",
    ),
    "detached as well": (
        "    for p in ps:\n        p.grad.detach_(); p.grad.zero_()\n",
        "    for p in ps:\n        p.grad = None; p.grad = None\n",
    ),
    "two of them": (
        "    optimizer.zero_grad(set_to_none=False); model.zero_grad(set_to_none=False)\n",
        "    optimizer.zero_grad(); model.zero_grad()\n",
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_given_up(workshop, name: str, newline: str) -> None:
    before, after = (HEAD + "for x in loader:\n" + text + REST for text in REWRITTEN[name])
    before, after = before.replace("\n", newline), after.replace("\n", newline)
    shop = workshop(before, optimizers=(("SGD", 3),))
    assert shop.edited("zero_grad") == after
    compile(after, "train.py", "exec", dont_inherit=True)
    again = replace(shop, files={**shop.files, "/project/train.py": after})
    planned = again.plan("zero_grad")
    assert (planned.edits, planned.refused) == ((), ())


def test_in_a_function(workshop) -> None:
    before = (
        HEAD
        + "def step(x):\n    optimizer.zero_grad(set_to_none=False)\n"
        + REST
        + "for x in loader:\n    step(x)\n"
    )
    assert workshop(before, optimizers=(("SGD", 3),)).edited("zero_grad") == before.replace(
        "set_to_none=False", ""
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("optimizer.zero_grad(set_to_none=flag)", "when the script runs"),
        ("optimizer.zero_grad(**options)", "mapping"),
        ("pass", "No `zero_grad()`"),
        ("optimizer.zero_grad(set_to_none=False); norm = w.grad.norm()", "uses a gradient"),
        ("for p in ps: p.grad.zero_(); p.data.clamp_(0)", "does more"),
    ],
)
def test_refused_with_the_reason_and_what_to_write(workshop, line: str, said: str) -> None:
    shop = workshop(f"{HEAD}for x in loader:\n    {line}\n{REST}", optimizers=(("SGD", 3),))
    assert said in shop.reason("zero_grad")
    assert "zero_grad()" in shop.plan("zero_grad").refused[0].snippet


def test_a_comprehension_guards_its_gradients(workshop) -> None:
    source = (
        "import torch\nmodel = make()\noptimizer = torch.optim.SGD(model.parameters())\nfor x in loader:\n"
        "    optimizer.zero_grad(set_to_none=False)\n"
        "    norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]\n"
        "    model(x).sum().backward()\n    optimizer.step()\n"
    )
    assert workshop(source, optimizers=(("SGD", 3),)).plan("zero_grad").edits
    unguarded = source.replace(" if p.grad is not None", "")
    assert "uses a gradient" in workshop(unguarded, optimizers=(("SGD", 3),)).reason("zero_grad")


def test_it_takes_no_value(workshop) -> None:
    shop = workshop(f"{HEAD}for x in loader:\n    optimizer.zero_grad(set_to_none=False)\n{REST}")
    assert "not a value" in shop.reason("zero_grad=maybe")


TENSORS = """\
import torch
w = torch.randn(3, requires_grad=True)
for step in range(9):
    loss = (w * x).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
"""


def test_tensors_that_are_updated_by_hand(workshop) -> None:
    changed = workshop(TENSORS).edited("zero_grad")
    assert changed == TENSORS.replace("w.grad.zero_()", "w.grad = None")
    assert workshop(changed).edited("zero_grad") == changed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "        w -= 0.1 * w.grad\n        w.grad.zero_()\n",
            "        w.grad.zero_()\n        w -= 0.1 * w.grad\n",
        ),
        ("    loss.backward()\n", "    if step:\n        loss.backward()\n"),
        ("        w -= 0.1 * w.grad\n", "        w -= 0.1 * v.grad\n"),
    ],
)
def test_a_gradient_that_may_be_gone_when_it_is_read(workshop, before: str, after: str) -> None:
    assert "may not be there" in workshop(TENSORS.replace(before, after)).reason("zero_grad")
