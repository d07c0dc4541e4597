"""pin_memory in the loader and non_blocking in the moves of its batches, each where it is missing."""

from __future__ import annotations

import pytest

LOOP = """\
for x, y in l:
    x = {move}
    loss = model(x)
    loss.backward()
    optimizer.step()
"""
BOTH = [
    ("DataLoader(d, 16)", "DataLoader(d, 16, pin_memory=True)"),
    ("DataLoader(d, 16,)", "DataLoader(d, 16, pin_memory=True,)"),
    ("DataLoader(d, pin_memory=False)", "DataLoader(d, pin_memory=True)"),
    ("DataLoader(d, 16, True, None, None, 0, None, False)", "DataLoader(d, 16, True, None, None, 0, None, True)"),
    ("DataLoader(d, pin_memory=True)", "DataLoader(d, pin_memory=True)"),
    ("DataLoader(\n    d,\n    16,  # é\n)", "DataLoader(\n    d,\n    16,  # é\n    pin_memory=True,\n)"),
    ("DataLoader(d, **{'num_workers': 1, 'pin_memory': True})",) * 2,
    ("DataLoader(d, **{'num_workers': 1})", "DataLoader(d, pin_memory=True, **{'num_workers': 1})"),
]  # fmt: skip
MOVES = [
    ("x.to(device)", "x.to(device, non_blocking=True)"),
    ("x.to(device=device)", "x.to(device=device, non_blocking=True)"),
    ("x.cuda()", "x.cuda(non_blocking=True)"),
    ("x.cuda(0)", "x.cuda(0, non_blocking=True)"),
    ("x.cuda(0, False)", "x.cuda(0, True)"),
    ("x.to(device, non_blocking=False)", "x.to(device, non_blocking=True)"),
    ("x.to(device, non_blocking=True)", "x.to(device, non_blocking=True)"),
    ("x.float().to(device)", "x.float().to(device, non_blocking=True)"),
]


def script(loader, move):
    return f"import torch\nfrom torch.utils.data import DataLoader\nl = {loader}\n" + LOOP.format(move=move)


@pytest.mark.parametrize(("before", "after"), BOTH)
def test_the_loader_and_the_moves(workshop, before, after) -> None:
    shop = workshop(script(before, "x.to(device)"), loader_line=3)
    assert shop.edited("pin_memory") == script(after, "x.to(device, non_blocking=True)")


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_each_way_of_moving(workshop, before, after) -> None:
    shop = workshop(script("DataLoader(d, pin_memory=True)", before), loader_line=3)
    assert shop.edited("pin_memory") == script("DataLoader(d, pin_memory=True)", after)


def test_beside_new_workers(workshop) -> None:
    shop = workshop(script("DataLoader(d, 16)", "x.to(device)"), loader_line=3)
    changed = shop.edited("pin_memory", "num_workers=2", "persistent_workers")
    assert "num_workers=2, persistent_workers=True, pin_memory=True" in changed
    assert "non_blocking=True" in changed


@pytest.mark.parametrize(
    ("loader", "move", "said"),
    [
        ("DataLoader(d)", "x * 2", "No move of the batch"),
        ("DataLoader(d)", "x.to('cpu')", "No move of the batch"),
        ("DataLoader(d)", "x.to(torch.float32)", "No move of the batch"),
        ("DataLoader(d, pin_memory=cuda())", "x.to(device)", "computed when the script runs"),
        ("DataLoader(d, **make())", "x.to(device)", "may already set"),
        ("make_loader(d)", "x.to(device)", "no DataLoader"),
        ("DataLoader(d)", "x.to(device, non_blocking=flag)", "computed when the script runs"),
        ("DataLoader(d, pin_memory=flag)", "x.to(device)", "does not lead to one value"),
    ],
)
def test_refused_with_the_code_to_write(workshop, loader, move, said) -> None:
    shop = workshop(script(loader, move), loader_line=3)
    planned = shop.plan("pin_memory")
    assert planned.edits == ()
    assert said in planned.refused[0].reason
    assert "non_blocking=True" in planned.refused[0].snippet


MOVED = "for x in l:\n    x = x.to(device)\n    model(x).backward()\n    o.step()\n"
OPTION = (
    "from argparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--pin', type=int, default=0)\n"
    "a = p.parse_args()\nl = DataLoader(d, pin_memory=a.pin)\n"
)


@pytest.mark.parametrize(
    ("source", "arguments", "said"),
    [
        (OPTION, ("--pin=0",), "The command line sets --pin (`--pin=0`): change it there"),
        ("PIN = 0\nprint(PIN)\nl = DataLoader(d, pin_memory=PIN)\n", (), "is read on lines 2, 3"),
        ("l = DataLoader(d, pin_memory=find())\n", (), "is computed when the script runs"),
        ("l = DataLoader(d)\nl.x.to(a, b, c)\n", (), "No move of the batch"),
    ],
)
def test_what_else_decides_is_named(workshop, source: str, arguments: tuple[str, ...], said: str) -> None:
    body = MOVED if "No move" not in said else MOVED.replace("x = x.to(device)", "pass")
    assert said in workshop(source + body, arguments=arguments).reason("pin_memory")
