"""Linear layers are written as two where nothing needs the one weight, and joined again byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine

SCRIPT = "/project/train.py"
SPLIT = "nn.Sequential(nn.Linear(64, 8, bias=False), nn.Linear(8, 128"


def linear(path="Net.fc", line=None, inputs=64, outputs=128):
    options = {"in_features": inputs, "out_features": outputs, "bias": True}
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact(path, "Linear", True, inputs * outputs, True, options, created_line=place)


def holder(path, name="Net"):
    return ModuleFact(path, name, name != "Net", 0, True, {})


def with_layers(workshop, source, *layers):
    made = workshop(source)
    return replace(made, profile=replace(made.profile, modules=(holder("Net"), *layers)))


HEAD = "import torch\nfrom torch import nn\n"
NET = (
    HEAD
    + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.fc = nn.Linear(64, 128)\n    def forward(self, x):\n        return self.fc(x)\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = nn.Linear(64, 128)", f"m = {SPLIT}))"),
        ("m = nn.Linear(64, 128, bias=False)", f"m = {SPLIT}, bias=False))"),
        ("m = nn.Linear( a * b,128,True ) # x", None),
        (
            "m = nn.Linear(in_features=64, out_features=128)",
            (
                "m = nn.Sequential(nn.Linear(in_features=64, out_features=8, bias=False), "
                "nn.Linear(in_features=8, out_features=128))"
            ),
        ),
        ("m = nn.Linear(64, out_features=128)", f"m = {SPLIT.replace(', 128', ', out_features=128')}))"),
        (
            "m = nn.Linear(64, 128, device=place, dtype=kind())",
            (
                "m = nn.Sequential(nn.Linear(64, 8, bias=False, device=place, dtype=kind()), "
                "nn.Linear(8, 128, device=place, dtype=kind()))"
            ),
        ),
        ("m = nn.Linear(\n    (64),  # in\n    128,\n)", None),
        ("m = nn.Linear(64  # in\n    , 128)", None),
        ("m = [nn.Linear(64, 128) for _ in range(3)]", f"m = [{SPLIT})) for _ in range(3)]"),
    ],
)
def test_each_call_becomes_two_layers_and_one_again(workshop, before, after):
    source = HEAD + before + "\n"
    shop = with_layers(workshop, source, linear())
    planned = shop.plan("low_rank=8")
    assert planned.refused == ()
    made = shop.after(planned)
    compile(made.files[SCRIPT], SCRIPT, "exec", dont_inherit=True)
    if after is not None:
        assert made.files[SCRIPT] == HEAD + after + "\n"
    assert made.present("low_rank") == "8"
    assert made.plan("low_rank=8").edits == ()
    assert made.after(made.plan("low_rank=16")).present("low_rank") == "16"
    assert made.after(made.without("low_rank")).files[SCRIPT] == source
    windows = with_layers(workshop, source.replace("\n", "\r\n"), linear())
    there = windows.after(windows.plan("low_rank=8"))
    assert there.after(there.without("low_rank")).files[SCRIPT] == windows.files[SCRIPT]


def test_a_layer_that_is_imported_by_name_gets_its_container(workshop):
    shop = with_layers(workshop, "from torch.nn import Linear as L\nm = L(64, 128)\n", linear())
    text = shop.edited("low_rank=8")
    assert "torch.nn.Sequential(L(64, 8, bias=False), L(8, 128))" in text
    assert "import torch\n" in text


def test_lines_of_the_run_tell_which_calls_made_the_layers(workshop):
    source = HEAD + "a, b = nn.Linear(64, 128), nn.Linear(64, 128)\nc = nn.Linear(2, 2)\n"
    layers = (linear("Net.a", 3), linear("Net.b", 3), linear("Net.c", 4, 2, 2))
    text = with_layers(workshop, source, *layers).edited("low_rank=8")
    assert text == source.replace("nn.Linear(64, 128)", f"{SPLIT}))")


def test_another_layer_on_the_line_is_told_by_its_sizes(workshop):
    source = HEAD + "a, b = nn.Linear(64, 8, bias=False), nn.Linear(64, out_features=128)\n"
    text = with_layers(workshop, source, linear("Net.b", 3)).edited("low_rank=8")
    assert "nn.Linear(64, 8, bias=False), nn.Sequential(nn.Linear(64, " in text


@pytest.mark.parametrize(
    "more",
    [
        "def start(m):\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.weight)\nm.apply(start)\n",
        "def start(m):\n    if m.__class__.__name__ == 'Linear':\n        m.weight.data.fill_(0)\n",
        "table = nn.Embedding(3, 4)\ntable.weight.data.zero_()\n",
        "print(config.in_features, other.norm.weight)\n",
        "for table in (net.user, net.item):\n    nn.init.normal_(table.weight)\n",
        "net.fc.requires_grad_(False)\nfor p in net.fc.parameters():\n    print(p)\n",
        "def start(m):\n    if isinstance(m, nn.Conv2d):\n        m.bias.data.zero_()\n",
        "def start(m):\n    if isinstance(m, nn.Linear) and m.bias is not None:\n        nn.init.zeros_(m.bias)\n",
        "def start(m):\n    if getattr(m, 'bias', None) is not None:\n        m.bias.data.zero_()\n",
        "print(arguments.bias, m.bias is None)\n",
        "for m in net.modules():\n    if isinstance(m, (nn.Linear, nn.Conv2d)):\n        print(m)\n",
        "for name, m in net.named_modules():\n    print(name if isinstance(m, nn.Linear) else '')\n",
        "found = [m for m in net.modules() if isinstance(m, nn.Linear)]\n",
        "for m in net.children():\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.weight)\n",
        "for m in net.children():\n    print(isinstance(m, nn.Conv2d))\n",
    ],
)
def test_code_that_asks_for_the_class_or_means_another_layer_is_no_hindrance(workshop, more):
    assert with_layers(workshop, NET + more, linear()).plan("low_rank=8").edits


ASKS = "def start(m):\n    if isinstance(m, nn.Conv2d):\n        pass\n    elif isinstance(m, nn.Linear):\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("nn.init.zeros_(net.fc.weight)\n", "`net.fc.weight` is used in `nn.init.zeros_"),
        ("net.fc.weight = net.table.weight\n", "`net.fc.weight` is used in"),
        ("print(net.fc.in_features)\n", "the new layers have no such size"),
        ("print(net.fc.bias)\n", "the new layers have no such bias"),
        ("def start(m):\n    nn.init.zeros_(m.weight)\n", "`m.weight` is used in"),
        (f"{ASKS}        nn.init.normal_(m.weight)\n        m.bias.data.zero_()\n", "`m.bias.data.zero_()`"),
        (f"{ASKS}        nn.init.zeros_(m.bias)\n", "the new layers have no such bias"),
        ("for m in net.modules():\n    m.bias.data.fill_(0)\n", "the new layers have no such bias"),
        (f"{ASKS}        if hasattr(m, 'bias'):\n            m.bias.data.zero_()\n", "`m.bias.data.zero_()`"),
        ("for layer in net.children():\n    print(layer.weight)\n", "`layer.weight` is used in"),
        ("for layer in (net.fc, net.user):\n    print(layer.weight)\n", "`layer.weight` is used in"),
        ("print(make().weight)\n", "`make().weight` is used in"),
        ("state['fc.weight'] = x\n", "names a weight"),
        ("k = 'net.fc.bias'\n", "names a weight"),
        ("nn.utils.parametrizations.weight_norm(net.fc)\n", "works on the weight of `net.fc`"),
        ("net.again = net.fc\n", "gives the layer a second name"),
        (
            "for m in net.children():\n    if isinstance(m, nn.Linear):\n        kept.append(m)\n",
            "`isinstance(m, nn.Linear)` selects layers by their class",
        ),
        ("x = isinstance(net.fc, (nn.Conv2d, nn.Linear))\n", "selects layers by their class"),
    ],
)
def test_uses_of_the_one_weight_are_refused(workshop, more, said):
    assert said in with_layers(workshop, NET + more, linear()).reason("low_rank=8")


MADE = "m = nn.Linear(64, 128)\n"


@pytest.mark.parametrize(
    ("source", "layers", "said"),
    [
        (MADE, (linear(inputs=4, outputs=4),), "No linear layer is known"),
        ("m = nn.utils.weight_norm(nn.Linear(64, 128))\n", (linear(),), "works on the weight of the layer"),
        ("m = nn.Linear(*sizes)\n", (linear(),), "the code does not show"),
        ("m = nn.Linear(64, 128, **more)\n", (linear(),), "the code does not show"),
        ("m = nn.Linear(out_features=128, in_features=64)\n", (linear(),), "is not the first argument"),
        (MADE + MADE, (linear(),), "More than one call"),
        ("m = make(64, 128)\n", (linear(),), "No call"),
        ("m = make(64, 128)\n", (linear(line=3),), "does not construct torch.nn.Linear by name"),
        (MADE, (linear(line=3), linear("Net.copy")), "A library makes `Net.copy`"),
        (MADE, (linear(line=3), linear("Net.small", 3, 2, 2)), "also makes `Net.small`"),
    ],
)
def test_calls_that_cannot_be_split_are_refused(workshop, source, layers, said):
    assert said in with_layers(workshop, HEAD + source, *layers).reason("low_rank=8")


def test_names_are_those_of_containers_too(workshop):
    source = HEAD + "net.body = nn.Sequential(nn.Linear(64, 128))\nprint(net.body[0].weight)\n"
    layers = (holder("Net.body", "Sequential"), linear("Net.body.0"))
    assert "`net.body[0].weight` is used" in with_layers(workshop, source, *layers).reason("low_rank=8")


def test_what_a_person_wrote_is_found_and_joined(workshop):
    written = HEAD + "a = nn.Sequential(\n    nn.Linear(n, 16, bias=False),\n    nn.Linear(16, n),\n)\n"
    shop = workshop(written)
    assert shop.present("low_rank") == "16"
    assert shop.after(shop.without("low_rank")).files[SCRIPT] == HEAD + "a = nn.Linear(n, n)\n"
    taken = workshop(written + "print(a[0])\n").without("low_rank")
    assert "takes one of the two layers that would become one" in taken.refused[0].reason
    for other in ("nn.ReLU()", "nn.Linear(8, n)", "nn.Linear(16, n), nn.ReLU()"):
        assert workshop(written.replace("nn.Linear(16, n)", other)).present("low_rank") is None
    assert workshop(written.replace(", bias=False", "")).present("low_rank") is None


def test_a_refusal_gives_the_code_to_write(workshop):
    planned = with_layers(workshop, HEAD + "m = make()\n", linear()).plan("low_rank=8")
    assert "nn.Linear(inputs, 8, bias=False)" in planned.refused[0].snippet
    assert with_layers(workshop, HEAD + MADE, linear()).plan("low_rank=8").notes
