"""fused=True goes into every torch optimizer that has it, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

SCRIPT = "/project/train.py"

CASES = [
    (
        "import torch\no = torch.optim.AdamW(m.parameters(), lr=1e-3)\n",
        "AdamW",
        "import torch\no = torch.optim.AdamW(m.parameters(), lr=1e-3, fused=True)\n",
    ),
    (
        "import torch.optim as optim\no = optim.SGD(\n    ps,\n    lr=0.1,\n)\n",
        "SGD",
        "import torch.optim as optim\no = optim.SGD(\n    ps,\n    lr=0.1,\n    fused=True,\n)\n",
    ),
    (
        "from torch import optim as O\no = O.Adam(ps, fused=False)\n",
        "Adam",
        "from torch import optim as O\no = O.Adam(ps, fused=True)\n",
    ),
    (
        "from torch.optim import Adam as A\no = A(ps, foreach=True, lr=1)\n",
        "Adam",
        "from torch.optim import Adam as A\no = A(ps, fused=True, lr=1)\n",
    ),
    (
        "from torch.optim import Adagrad\no = Adagrad(ps, **{'lr': 1})\n",
        "Adagrad",
        "from torch.optim import Adagrad\no = Adagrad(ps, fused=True, **{'lr': 1})\n",
    ),
    (
        "from torch.optim.adam import Adam\no = Adam(ps)\n",
        "Adam",
        "from torch.optim.adam import Adam\no = Adam(ps, fused=True)\n",
    ),
]


@pytest.mark.parametrize(("before", "name", "after"), CASES)
def test_written_into_the_constructor(workshop, before: str, name: str, after: str) -> None:
    assert workshop(before, optimizers=((name, 2),)).edited("fused_optimizer=fused") == after
    assert workshop(before, optimizers=((name, None),)).edited("fused_optimizer=fused") == after


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("from transformers import AdamW\no = AdamW(ps)\n", "AdamW", "does not construct"),
        ("import torch\no = getattr(torch.optim, name)(ps)\n", "Adam", "does not construct"),
        ("from torch.optim import Adam\no, q = Adam(a), Adam(b)\n", "Adam", "more than one"),
        ("from torch.optim import Adam\no = Adam(ps, **options)\n", "Adam", "may set"),
        ("from torch.optim import Adam\no = Adam(ps, **{'foreach': True})\n", "Adam", "`foreach`"),
        ("from torch.optim import Adam\no = Adam(ps, differentiable=True)\n", "Adam", "differentiable"),
        ("from torch.optim import Adam\no = Adam(ps, fused=cuda)\n", "Adam", "when the script runs"),
        ("from torch.optim import RMSprop\no = RMSprop(ps)\n", "RMSprop", "no fused form"),
        ("class Adam: pass\no = Adam(ps)\n", "Adam", "does not construct"),
    ],
)
def test_refused_with_the_reason(workshop, source: str, name: str, said: str) -> None:
    assert said in workshop(source, optimizers=((name, 2),)).reason("fused_optimizer=fused")


MAPPED = "import torch\noptions = dict(lr=1, fused=True)\no = torch.optim.Adam(ps, **options)\n"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (MAPPED, MAPPED.replace(", fused=True", "")),
        (
            MAPPED.replace("dict(lr=1, fused=True)", "read()"),
            "`**options` sets `fused` (/project/train.py:3). Remove it there.",
        ),
    ],
)
def test_an_option_in_a_mapping_is_taken_out_there_or_named(workshop, source: str, text: str) -> None:
    shop = workshop(source, optimizers=(("Adam", 3),))
    (fact,) = shop.profile.optimizers
    shop = replace(shop, profile=replace(shop.profile, optimizers=(replace(fact, options={"fused": True}),)))
    assert shop.present("fused_optimizer") == "fused"
    planned = shop.without("fused_optimizer")
    assert (planned.refused[0].reason if planned.refused else shop.after(planned).files[SCRIPT]) == text


def test_all_optimizers_or_none(workshop) -> None:
    source = "import torch\na = torch.optim.Adam(x)\nb = torch.optim.SGD(y)\n"
    changed = workshop(source, optimizers=(("Adam", 2), ("SGD", 3))).edited("fused_optimizer=fused")
    assert changed.count("fused=True") == 2
    source = "import torch\na = torch.optim.Adam(x)\nb = torch.optim.SGD(y, **unknown)\n"
    assert workshop(source, optimizers=(("Adam", 2), ("SGD", 3))).reason("fused_optimizer=fused")


def test_it_takes_no_value(workshop) -> None:
    shop = workshop("import torch\no = torch.optim.Adam(ps)\n", optimizers=(("Adam", 2),))
    assert "not a value" in shop.reason("fused_optimizer=maybe")


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("o = O.RMSprop(ps)\n", "RMSprop", "o = O.RMSprop(ps, foreach=True)\n"),
        (
            "o = O.NAdam(\n    ps,  # all\n)\n",
            "NAdam",
            "o = O.NAdam(\n    ps,  # all\n    foreach=True,\n)\n",
        ),
        ("o = O.Rprop(ps, foreach=False)\n", "Rprop", "o = O.Rprop(ps, foreach=True)\n"),
        ("o = O.AdamW(ps, fused=False)\n", "AdamW", "o = O.AdamW(ps, foreach=True)\n"),
    ],
)
def test_all_tensors_at_once(workshop, before: str, name: str, after: str) -> None:
    head = "from torch import optim as O\n"
    shop = workshop(head + before, optimizers=((name, 2),))
    assert shop.edited("fused_optimizer=foreach") == head + after
    assert workshop(head + after, optimizers=((name, 2),)).plan("fused_optimizer=foreach").edits == ()


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("from torch.optim import SparseAdam\no = SparseAdam(ps)\n", "SparseAdam", "no foreach form"),
        (
            "from torch.optim import Adam\no = Adam(ps, fused=True, foreach=False)\n",
            "Adam",
            "excludes foreach",
        ),
        ("from torch.optim import Adamax\no = Adamax(ps, foreach=flag)\n", "Adamax", "when the script runs"),
    ],
)
def test_not_all_at_once(workshop, source: str, name: str, said: str) -> None:
    assert said in workshop(source, optimizers=((name, 2),)).reason("fused_optimizer=foreach")
