"""A batch in parts is written where forward pass, loss and backward pass are plain; all else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

HEAD = (
    "import torch\nfrom torch import nn\nmodel = make()\n"
    "optimizer = torch.optim.Adam(model.parameters())\nf = nn.MSELoss()\n"
)

REWRITTEN = {
    "plain": (
        (
            "for x, y in loader:\n    optimizer.zero_grad()\n    loss = f(model(x), y)\n"
            "    loss.backward()\n    optimizer.step()\n"
        ),
        (
            "for x, y in loader:\n    optimizer.zero_grad()\n"
            "    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "        loss = f(model(x_part), y_part)\n        part_loss = loss * (len(x_part) / len(x))\n"
            "        part_loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "cleared in between": (
        (
            "for x, y in loader:\n    out = model(x)\n    loss = f(out, y)\n"
            "    optimizer.zero_grad()  # now\n    loss.backward()\n"
            "    optimizer.step()\n"
        ),
        (
            "for x, y in loader:\n    optimizer.zero_grad()\n"
            "    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "        out = model(x_part)\n        loss = f(out, y_part)\n"
            "        part_loss = loss * (len(x_part) / len(x))\n"
            "        part_loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "the loss is shown": (
        (
            "for i, (x, y) in enumerate(loader):\n    optimizer.zero_grad()\n"
            "    loss = f(model(x), y)\n    loss.backward()\n"
            "    optimizer.step()\n    print(loss.item())\n"
        ),
        (
            "for i, (x, y) in enumerate(loader):\n    optimizer.zero_grad()\n    whole_loss = 0.0\n"
            "    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n        loss = f(model(x_part), y_part)\n"
            "        part_loss = loss * (len(x_part) / len(x))\n        part_loss.backward()\n"
            "        whole_loss += loss.detach() * (len(x_part) / len(x))\n    loss = whole_loss\n"
            "    optimizer.step()\n"
            "    print(loss.item())\n"
        ),
    ),
    "the result is shown": (
        (
            "for x, y in loader:\n    x, y = x.view(-1, 9).float(), y.float().unsqueeze(1) / 2\n"
            "    out = model(x)\n    loss = f(out, y)\n    optimizer.zero_grad()\n    loss.backward()\n"
            "    optimizer.step()\n    print(loss.item(), (out.argmax(1) == y).sum())\n"
        ),
        (
            "for x, y in loader:\n    x, y = x.view(-1, 9).float(), y.float().unsqueeze(1) / 2\n"
            "    optimizer.zero_grad()\n    whole_loss = 0.0\n    whole_out = []\n"
            "    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "        out = model(x_part)\n        loss = f(out, y_part)\n"
            "        part_loss = loss * (len(x_part) / len(x))\n        part_loss.backward()\n"
            "        whole_loss += loss.detach() * (len(x_part) / len(x))\n"
            "        whole_out.append(out.detach())\n    loss = whole_loss\n    out = torch.cat(whole_out)\n"
            "    optimizer.step()\n    print(loss.item(), (out.argmax(1) == y).sum())\n"
        ),
    ),
    "moved to a device, tabs": (
        (
            "for x, y in loader:\n\tx, y = x.to(device), y.to(device)\n"
            "\tloss = nn.functional.cross_entropy(model(x), y)  # é\n"
            "\tloss.backward()\n\toptimizer.step()\n"
        ),
        (
            "for x, y in loader:\n\tx, y = x.to(device), y.to(device)\n"
            "\tfor x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "\t\tloss = nn.functional.cross_entropy(model(x_part), y_part)  # é\n"
            "\t\tpart_loss = loss * (len(x_part) / len(x))\n\t\tpart_loss.backward()\n\toptimizer.step()\n"
        ),
    ),
    "one tensor": (
        (
            "for batch in loader:\n    x = batch['x']\n    loss = model(x).mean()\n    loss.backward()\n"
            "    optimizer.step()\n"
        ),
        (
            "for batch in loader:\n    x = batch['x']\n    for x_part in x.chunk(4):\n"
            "        loss = model(x_part).mean()\n"
            "        part_loss = loss * (len(x_part) / len(x))\n        part_loss.backward()\n"
            "    optimizer.step()\n"
        ),
    ),
    "names that are taken": (
        (
            "x_part = 1\nfor x, y in loader:\n    loss = f(model(x), y)\n    loss.backward()\n"
            "    optimizer.step()\n"
        ),
        (
            "x_part = 1\nfor x, y in loader:\n    for micro_x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "        loss = f(model(micro_x_part), y_part)\n"
            "        part_loss = loss * (len(micro_x_part) / len(x))\n"
            "        part_loss.backward()\n    optimizer.step()\n"
        ),
    ),
    "clipped behind": (
        (
            "for x, y in loader:\n    loss = f(\n        model(x),\n        y,\n    )\n    loss.backward()\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), 1)\n    optimizer.step()\n"
        ),
        (
            "for x, y in loader:\n    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n        loss = f(\n"
            "            model(x_part),\n            y_part,\n        )\n"
            "        part_loss = loss * (len(x_part) / len(x))\n"
            "        part_loss.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
            "    optimizer.step()\n"
        ),
    ),
    "in an epoch loop": (
        (
            "for epoch in range(2):\n  for x, y in tqdm(loader):\n    loss = f(model(x), y)\n"
            "    loss.backward()\n    optimizer.step()\n"
        ),
        (
            "for epoch in range(2):\n  for x, y in tqdm(loader):\n"
            "    for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
            "      loss = f(model(x_part), y_part)\n      part_loss = loss * (len(x_part) / len(x))\n"
            "      part_loss.backward()\n    optimizer.step()\n"
        ),
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_in_parts(workshop, name: str, newline: str) -> None:
    before, after = (HEAD + text for text in REWRITTEN[name])
    before, after = before.replace("\n", newline), after.replace("\n", newline)
    shop = workshop(before, optimizers=(("Adam", 4),))
    assert shop.edited("grad_accumulation=4") == after
    compile(after, "train.py", "exec", dont_inherit=True)
    again = replace(shop, files={**shop.files, "/project/train.py": after})
    assert again.plan("grad_accumulation=4").edits == ()


def test_autocast_goes_into_the_loop(workshop) -> None:
    shop = workshop(HEAD + REWRITTEN["plain"][0], optimizers=(("Adam", 4),))
    for asked in (("grad_accumulation=2", "amp=bf16"), ("amp=bf16", "grad_accumulation=2")):
        edited = shop.edited(*asked)
        compile(edited, "train.py", "exec", dont_inherit=True)
        assert edited.index("for x_part") < edited.index("autocast") < edited.index("model(x_part)")
        assert edited.index("\n        part_loss.backward()") > 0


LOOP = "for x, y in loader:\n    {}\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("loss = f(model(x), y); loss.backward()", "shares its line"),
        ("loss = nn.MSELoss(reduction='sum')(model(x), y)\n    loss.backward()", "plain mean"),
        ("loss = g(model(x), y)\n    loss.backward()", "not known to be a mean"),
        (
            "h = model(x)\n    out = h[0]\n    loss = f(out, y)\n    loss.backward()\n    acc(h, y)",
            "`h` is used after",
        ),
        (
            "out = model(x)\n    loss = f(out, y)\n    loss.backward()\n    print(out.grad)",
            "`out` is used after",
        ),
        ("loss = f(model(x), y)\n    total += loss.item()\n    loss.backward()", "stands between"),
        ("loss = f(model(x), y)\n    scaler.scale(loss).backward()", "gradient scaler"),
        ("loss = f(model(x), y)\n    accelerator.backward(loss)", "goes through `accelerator`"),
        ("loss = f(model(x), y)\n    loss.backward(retain_graph=True)", "arguments of its own"),
        ("a = f(model(x), y)\n    a.backward()\n    b = f(model(x), y)\n    b.backward()", "more than one"),
        ("loss = f(model(**x), y)\n    loss.backward()\n    optimizer.step()", "2 calls"),
        ("loss = f(model(x), y)\n    if bad(loss): continue\n    loss.backward()", "stands between"),
    ],
)
def test_refused_with_the_reason_and_what_to_write(workshop, body: str, said: str) -> None:
    shop = workshop(HEAD + LOOP.format(body), optimizers=(("Adam", 4),))
    assert said in shop.reason("grad_accumulation=4")
    assert ".chunk(4)" in shop.plan("grad_accumulation=4").refused[0].snippet


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "for batch in l:\n    loss = model(batch).mean()\n    loss.backward()\n    optimizer.step()\n",
            "cannot be divided",
        ),
        (
            "while True:\n    loss = model(get()).mean()\n    loss.backward()\n    optimizer.step()\n",
            "known to be the batch",
        ),
        (
            "for x, y in l:\n    loss = f(model(x), y)\n    loss.backward()\n    if fine:\n        optimizer.step()\n",
            "in some iterations only",
        ),
        (
            (
                "for i, (x, y) in enumerate(l):\n    loss = f(model(x), y)\n    loss.backward()\n"
                "    if i % 4 == 0:\n"
                "        optimizer.step()\n"
            ),
            "accumulates gradients",
        ),
        (
            "for x, y in l:\n    loss = f(model(x), y)\n    loss.backward()\n    optimizer.step(go)\n",
            "closure",
        ),
    ],
)
def test_loops_that_are_not_plain(workshop, source: str, said: str) -> None:
    assert said in workshop(HEAD + source, optimizers=(("Adam", 4),)).reason("grad_accumulation=2")


def test_parts_that_are_not_equal(workshop) -> None:
    shop = workshop(HEAD + REWRITTEN["plain"][0], optimizers=(("Adam", 4),))
    assert "cannot be split into 3 equal parts" in shop.reason("grad_accumulation=3")
    assert "not a value" in shop.reason("grad_accumulation=half")


@pytest.mark.parametrize(
    ("made", "divisible"),
    [
        ("x = x.reshape(x.size(0), -1)", True),
        ("x = x.view(x.shape[0], 3, -1)", True),
        ("x = x.view(-1, 9)", True),
        ("x = x.flatten(1).detach() / 255", True),
        ("x = x.permute(0, 2, 1).transpose(1, 2)", True),
        ("y = y.unsqueeze(1).squeeze(2).type(torch.long)", True),
        ("y = y.view(-1, 1)", False),
        ("y = y.view(-1)", False),
        ("y = y.squeeze()", False),
        ("y = y.unsqueeze(0)", False),
        ("x = x.permute(1, 0, 2)", False),
        ("x = x.transpose(0, 1)", False),
        ("x = x.flatten()", False),
    ],
)
def test_the_batch_is_followed_through_methods_that_keep_its_first_dimension(
    workshop, made: str, divisible: bool
) -> None:
    source = f"for x, y in loader:\n    {made}\n    loss = f(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
    planned = workshop(HEAD + source, optimizers=(("Adam", 4),)).plan("grad_accumulation=2")
    assert bool(planned.edits) is divisible
    if not divisible:
        assert "cannot be divided" in planned.refused[0].reason


MODEL = """\
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def forward(self, x, y=None):
        logits = self.layers(x)
        loss = None
        if y is not None:
            loss = F.cross_entropy(logits, y{argument})
        return logits, loss

model = Model()
optimizer = torch.optim.Adam(model.parameters())
"""
DRAWN = (
    "for step in range(9):\n    x, y = get_batch()\n    _, loss = model(x, y)\n"
    "    loss.backward()\n    optimizer.step()\n"
)


def entering(shop, *sizes: int):
    """The same, of a run that told the sizes of what enters the model."""
    batch = replace(shop.profile.batch, leading_dimensions=sizes)
    return replace(shop, profile=replace(shop.profile, batch=batch))


def test_a_loss_that_the_model_gives_and_a_batch_that_is_drawn(workshop) -> None:
    shop = workshop(MODEL.format(argument="") + DRAWN, optimizers=(("Adam", 14),))
    size = shop.profile.batch_size
    assert "known to be the batch" in entering(shop, size, 3).reason("grad_accumulation=2")
    changed = entering(shop, size).edited("grad_accumulation=2")
    assert (
        "    for x_part, y_part in zip(x.chunk(2), y.chunk(2)):\n        _, loss = model(x_part, y_part)\n"
        in changed
    )


def test_a_loss_of_the_model_that_is_no_plain_mean(workshop) -> None:
    shop = workshop(MODEL.format(argument=", ignore_index=-1") + DRAWN, optimizers=(("Adam", 14),))
    assert "is not a plain mean" in entering(shop, shop.profile.batch_size).reason("grad_accumulation=2")
    added = MODEL.format(argument="").replace(
        "        return", "            loss += 0.1 * self.extra\n        return"
    )
    shop = workshop(added + DRAWN, optimizers=(("Adam", 15),))
    assert "gives the loss, which is not known" in entering(shop, shop.profile.batch_size).reason(
        "grad_accumulation=2"
    )


def test_micro_batches_that_are_there_are_for_the_person_to_change(workshop) -> None:
    source = (
        "for i, (x, y) in enumerate(l):\n    for k in range(steps):\n        loss = f(model(x), y) / steps\n"
        "        loss.backward()\n    optimizer.step()\n"
    )
    reason = workshop(HEAD + source, optimizers=(("Adam", 4),)).reason("grad_accumulation=2")
    assert "accumulates gradients" in reason
    assert "Multiply `steps` by 2" in reason
