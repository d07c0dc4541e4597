"""Layers get factors as weights where nothing needs the one weight; the written classes are run."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine
from skyline.whatif.catalogue.models.kronecker_factors import Structure, kronecker_layers

SCRIPT = "/project/train.py"
HEAD = "import torch\nfrom torch import nn\n"
MADE = "m = nn.Linear(64, 128)\n"
LSTM = "r = nn.LSTM(64, 32, batch_first=True)\n"
OF_LSTM = {"input_size": 64, "hidden_size": 32, "num_layers": 1, "bidirectional": False}


def linear(path="Net.fc", line=None, inputs=64, outputs=128):
    options = {"in_features": inputs, "out_features": outputs, "bias": True}
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact(path, "Linear", True, inputs * outputs, True, options, created_line=place)


def lstm(line=None):
    place = CodeLine(SCRIPT, line) if line else None
    return ModuleFact("Net.lstm", "LSTM", True, 4 * 32 * 98, True, OF_LSTM, created_line=place)


def with_layers(workshop, source, *layers):
    made = workshop(source)
    root = ModuleFact("Net", "Net", False, 0, True, {})
    return replace(made, profile=replace(made.profile, modules=(root, *layers)))


@pytest.mark.parametrize(
    "before",
    [
        MADE,
        "m = nn.Linear(*sizes, bias=False) # x\n",
        "m = nn.Linear(\n    64,\n    128,\n)\n",
        "m = [nn.Linear(64, 128) for _ in range(3)]\n",
        "@mark\nclass Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(64, 128)\n",
    ],
)
def test_each_call_is_given_to_the_class_and_taken_out_again(workshop, before):
    shop = with_layers(workshop, HEAD + before, linear())
    planned = shop.plan("kronecker=4")
    assert planned.refused == ()
    made = shop.after(planned)
    text = made.files[SCRIPT]
    compile(text, SCRIPT, "exec", dont_inherit=True)
    assert text.startswith(f"{HEAD}class KroneckerWeight(torch.nn.Module):\n")
    assert "KroneckerLSTM" not in text
    assert text.count("KroneckerLinear(nn.Linear(") == 1
    assert made.present("kronecker") == "4"
    assert made.plan("kronecker=4").edits == ()
    other = made.after(made.plan("kronecker=8:0.01"))
    assert other.present("kronecker") == "8:0.01"
    assert ", blocks=8, free=0.01)" in other.files[SCRIPT]
    assert made.after(made.without("kronecker")).files[SCRIPT] == HEAD + before
    windows = with_layers(workshop, (HEAD + before).replace("\n", "\r\n"), linear())
    there = windows.after(windows.plan("kronecker=4"))
    assert there.after(there.without("kronecker")).files[SCRIPT] == windows.files[SCRIPT]


def run(workshop, source, value, *layers):
    """The rewritten script, run; the layers are ``m`` and ``r``."""
    text = with_layers(workshop, source, *layers).edited(f"kronecker={value}")
    space = {}
    torch.manual_seed(0)
    exec(compile(text, SCRIPT, "exec", dont_inherit=True), space)
    return space


def bytes_of_training(model, given):
    """Bytes of parameters, gradients and optimizer state after a step."""
    optimizer = torch.optim.Adam(model.parameters())
    result = model(given)
    (result[0] if isinstance(result, tuple) else result).square().mean().backward()
    optimizer.step()
    parameters = list(model.parameters())
    tensors = [*parameters, *(one.grad for one in parameters)]
    tensors += [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return sum(one.numel() * one.element_size() for one in tensors)


@pytest.mark.parametrize("value", ["4", "8", "4:0.01"])
def test_the_rewritten_linear_layer_is_one_of_the_product(workshop, value):
    layer = run(workshop, HEAD + MADE, value, linear())["m"]
    given = torch.randn(3, 5, 64)
    # Both begin with results of one size.
    assert layer(given).std().item() == pytest.approx(torch.nn.Linear(64, 128)(given).std().item(), rel=0.5)
    if layer.factors.values is not None:
        torch.nn.init.normal_(layer.factors.values)
    whole = layer.factors()
    assert whole.shape == (128, 64)
    expected = torch.nn.functional.linear(given, whole, layer.bias)
    torch.testing.assert_close(layer(given), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", ["4", "4:0.01"])
def test_parameters_and_memory_are_those_of_the_prediction(workshop, value):
    [known] = kronecker_layers(with_layers(workshop, HEAD + MADE, linear()).profile, Structure.parse(value))
    layer = run(workshop, HEAD + MADE, value, linear())["m"]
    assert sum(one.numel() for one in layer.parameters()) == known.after + 128
    given = torch.randn(16, 64)
    before = bytes_of_training(torch.nn.Linear(64, 128), given)
    # Parameters, gradients and two averages of four bytes.
    assert before - bytes_of_training(layer, given) == 16 * known.less


@pytest.mark.parametrize("value", ["4", "4:0.01"])
def test_the_rewritten_lstm_is_one_with_the_products_as_weights(workshop, value):
    shop = with_layers(workshop, HEAD + LSTM, lstm())
    [known] = kronecker_layers(shop.profile, Structure.parse(value))
    layer = run(workshop, HEAD + LSTM, value, lstm())["r"]
    plain = torch.nn.LSTM(64, 32, batch_first=True)
    state = {name: factor().detach() for name, factor in layer.factors.items()}
    plain.load_state_dict({**plain.state_dict(), **layer.layer.state_dict(), **state})
    given = torch.randn(2, 7, 64)
    for got, wanted in zip(layer(given)[1], plain(given)[1], strict=True):
        torch.testing.assert_close(got, wanted)
    assert sum(one.numel() for one in layer.parameters()) == known.after + 8 * 32
    assert bytes_of_training(plain, given) - bytes_of_training(layer, given) == 16 * known.less
    again = copy.deepcopy(layer).double().float()
    torch.testing.assert_close(again(given)[0], layer(given)[0])
    again.load_state_dict(layer.state_dict())


def test_both_kinds_in_one_file_share_the_class_of_weights(workshop):
    source = HEAD + MADE + LSTM
    text = with_layers(workshop, source, linear(line=3), lstm(line=4)).edited("kronecker=4")
    assert text.count("class KroneckerWeight") == 1
    assert text.endswith(
        "m = KroneckerLinear(nn.Linear(64, 128), blocks=4)\n"
        "r = KroneckerLSTM(nn.LSTM(64, 32, batch_first=True), blocks=4)\n"
    )


def test_a_file_without_the_package_by_name_gets_its_import(workshop):
    text = with_layers(workshop, "from torch.nn import Linear as L\nm = L(64, 128)\n", linear()).edited(
        "kronecker=4"
    )
    assert "import torch\n" in text
    assert "KroneckerLinear(L(64, 128), blocks=4)" in text


NET = (
    HEAD
    + "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    + "        self.lstm = nn.LSTM(64, 32)\n    def forward(self, x):\n        return self.lstm(x)\n"
)


@pytest.mark.parametrize(
    ("source", "layers", "said"),
    [
        (MADE, (linear(inputs=5, outputs=5),), "No linear layer and no LSTM is known"),
        (MADE + "print(m.weight)\n", (linear("Net.m"),), "`m.weight` is used"),
        ("m = nn.utils.weight_norm(nn.Linear(64, 128))\n", (linear(),), "works on the weight of the layer"),
        ("class KroneckerWeight:\n    pass\n" + MADE, (linear(),), "has a `KroneckerWeight` of its own"),
        (MADE + MADE, (linear(),), "More than one call"),
    ],
)
def test_layers_whose_weight_is_needed_are_refused(workshop, source, layers, said):
    assert said in with_layers(workshop, HEAD + source, *layers).reason("kronecker=4")


@pytest.mark.parametrize("part", ["proj_size", "weight_hh_l0", "flatten_parameters()"])
def test_parts_of_an_lstm_are_refused(workshop, part):
    shop = with_layers(workshop, f"{NET}print(net.lstm.{part})\n", lstm())
    assert "is a part of the LSTM itself" in shop.reason("kronecker=4")


def test_the_sizes_of_a_layer_stay_readable(workshop):
    names = run(workshop, HEAD + MADE, "4", linear()) | run(workshop, HEAD + LSTM, "4", lstm())
    assert (names["m"].in_features, names["m"].out_features) == (64, 128)
    recurrent = names["r"]
    assert (recurrent.input_size, recurrent.hidden_size, recurrent.num_layers) == (64, 32, 1)
    assert (recurrent.batch_first, recurrent.bidirectional) == (True, False)
    shop = with_layers(workshop, f"{NET}for each in [net.lstm]:\n    print(each.hidden_size)\n", lstm())
    assert shop.plan("kronecker=4").refused == ()


def test_a_refusal_gives_the_classes_to_write(workshop):
    planned = with_layers(workshop, HEAD + "m = make()\n", linear()).plan("kronecker=4")
    assert "class KroneckerLinear(torch.nn.Module):" in planned.refused[0].snippet
    assert with_layers(workshop, HEAD + MADE, linear()).plan("kronecker=4").notes
