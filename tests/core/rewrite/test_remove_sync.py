"""Reports come every so often, sums stay tensors until they are used; other uses of numbers are refused."""

from __future__ import annotations

import pytest

HEAD = "import torch\nopt = torch.optim.Adam(model.parameters())\n"
STEP = "    loss.backward()\n    opt.step()\n"

REWRITTEN = {
    "a print": (
        "for i, x in enumerate(loader):\n    loss = model(x)\n" + STEP + "    print(i, loss.item())  # é\n",
        (
            "for i, x in enumerate(loader):\n    loss = model(x)\n"
            + STEP
            + "    if i % 10 == 0:\n        print(i, loss.item())  # é\n"
        ),
    ),
    "a tensor that is printed": (
        "for i in range(9):\n\tloss = model(x)\n\tloss.backward(); opt.step()\n\tprint(f'{loss:.2f}')\n",
        (
            "for i in range(9):\n\tloss = model(x)\n\tloss.backward(); opt.step()\n"
            "\tif i % 10 == 0:\n\t\tprint(f'{loss:.2f}')\n"
        ),
    ),
    "no index": (
        "for x, y in loader:\n    loss = f(model(x), y)\n" + STEP + "    logger.info(loss.item())\n",
        (
            "for step, (x, y) in enumerate(loader):\n    loss = f(model(x), y)\n"
            + STEP
            + "    if step % 10 == 0:\n        logger.info(loss.item())\n"
        ),
    ),
    "the usual name is taken": (
        "step = 1\nfor x in bar(loader):\n    loss = model(x)\n"
        + STEP
        + "    bar.set_postfix(loss=loss.item())\n",
        (
            "step = 1\nfor iteration_step, x in enumerate(bar(loader)):\n    loss = model(x)\n"
            + STEP
            + "    if iteration_step % 10 == 0:\n        bar.set_postfix(loss=loss.item())\n"
        ),
    ),
    "a counter, and neighbours": (
        (
            "n = 0\nwhile n < 9:\n  loss = model(x)\n  loss.backward()\n  opt.step()\n"
            "  v = loss.item()\n  print(n, v)\n  n += 1\n"
        ),
        (
            "n = 0\nwhile n < 9:\n  loss = model(x)\n  loss.backward()\n  opt.step()\n"
            "  if n % 10 == 0:\n    v = loss.item()\n    print(n, v)\n  n += 1\n"
        ),
    ),
    "a sum": (
        "total = 0.0\nfor x in loader:\n    loss = model(x)\n" + STEP + "    total += loss.item() * len(x)\n"
        "print(total / 10)\n",
        "total = 0.0\nfor x in loader:\n    loss = model(x)\n"
        + STEP
        + "    total += loss.detach() * len(x)\n"
        "print(float(total) / 10)\n",
    ),
    "a sum that is returned, and hits": (
        (
            "def epoch():\n    total = right = 0\n    for x, y in loader:\n        loss = f(model(x), y)\n"
            "        loss.backward()\n        opt.step()\n        total += loss.item()\n"
            "        right += (p == y).sum().item()\n    return total, right\nepoch()\n"
        ),
        (
            "def epoch():\n    total = right = 0\n    for x, y in loader:\n        loss = f(model(x), y)\n"
            "        loss.backward()\n        opt.step()\n        total += loss.detach()\n"
            "        right += (p == y).sum().detach()\n    return float(total), int(right)\nepoch()\n"
        ),
    ),
    "a sum that is reported now and then": (
        (
            "run = 0.0\nfor i, x in enumerate(loader):\n    loss = model(x)\n"
            + STEP
            + "    run += loss.item()\n    if i % 100 == 99:\n        print(run / 100)\n        run = 0.0\n"
        ),
        (
            "run = 0.0\nfor i, x in enumerate(loader):\n    loss = model(x)\n"
            + STEP
            + "    run += loss.detach()\n    if i % 100 == 99:\n        print(float(run) / 100)\n        run = 0.0\n"
        ),
    ),
    "nothing reads": ("for x in loader:\n    loss = model(x)\n" + STEP,) * 2,
    "now and then already": (
        "for i, x in enumerate(loader):\n    loss = model(x)\n"
        + STEP
        + "    if i % 50 == 0: print(loss.item())\n",
    )
    * 2,
}

REFUSED = {
    "kept in a list": (
        "for x in loader:\n    loss = model(x)\n" + STEP + "    losses.append(loss.item())\n",
        "beyond reports and sums",
    ),
    "decides": (
        "for x in loader:\n    loss = model(x)\n" + STEP + "    if loss.item() < 1: break\n",
        "beyond reports and sums",
    ),
    "a value that is used": (
        "for x in loader:\n    loss = model(x)\n" + STEP + "    v = loss.item()\n    print(v)\nplot(v)\n",
        "`v` is used beyond reports, on line 9",
    ),
    "in a function": (
        "def train(x):\n    loss = model(x)\n"
        + STEP
        + "    print(loss.item())\nfor x in loader:\n    train(x)\n",
        "where iterations are not counted",
    ),
    "a sum read each time": (
        "t = 0\nfor x in loader:\n    loss = model(x)\n" + STEP + "    t += loss.item()\n    bar.set(t)\n",
        "`t` is read in every iteration",
    ),
    "a loop without a number": (
        "while True:\n    loss = model(x)\n" + STEP + "    print(loss.item())\n",
        "does not count",
    ),
}


@pytest.mark.parametrize("shape", REWRITTEN)
def test_rewritten(workshop, shape):
    before, after = REWRITTEN[shape]
    assert workshop(HEAD + before).edited("remove_sync=10") == HEAD + after
    # A change already made is not made again.
    assert workshop(HEAD + after).edited("remove_sync=10") == HEAD + after


@pytest.mark.parametrize("shape", REFUSED)
def test_refused(workshop, shape):
    before, reason = REFUSED[shape]
    assert reason in workshop(HEAD + before).reason("remove_sync=10")


def test_what_reports_each_time_is_asked_how_often(workshop):
    source = HEAD + REWRITTEN["a print"][0]
    refused = workshop(source).plan("remove_sync=all").refused[0]
    assert "remove_sync=10" in refused.reason
    kept = workshop(HEAD + REFUSED["kept in a list"][0]).plan("remove_sync=20").refused[0]
    assert kept.snippet.startswith("if step % 20 == 0:")
