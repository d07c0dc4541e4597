"""The output layer, its call and the loss become an adaptive softmax, or the program is refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.record import CodeLine, OperatorShape, Phase, Record, RecordKind

SCRIPT = "/project/train.py"
CLASSES, WIDTH = 50_000, 64


@pytest.fixture
def net(workshop):
    """A run of a script whose ``Net.head`` has very many outputs, with inputs of these dimensions."""

    def make(source, inputs=(32, WIDTH), path="Net.head", others=None):
        lines = source.splitlines()
        line = next(number for number, text in enumerate(lines, 1) if "Linear(" in text and "head" in text)
        made = workshop(source, optimizers=(("SGD", None),), others=others)
        options: dict[str, Any] = {"in_features": WIDTH, "out_features": CLASSES}
        layer = ModuleFact(
            path, "Linear", True, WIDTH * CLASSES, True, options, created_line=CodeLine(SCRIPT, line)
        )
        rows = inputs[:-1]
        shapes = (
            OperatorShape("aten::linear", (inputs, (CLASSES, WIDTH)), ("float32",) * 2),
            OperatorShape("aten::cross_entropy_loss", ((*rows, CLASSES), rows), ("float32", "int64")),
        )
        mark = made.profile.trace.iterations[0]
        call = Record(
            "aten::linear", RecordKind.OPERATOR, Phase.FORWARD, "main", mark.index, mark.start_us, 1.0,
            module=1, shape=0,
        )  # fmt: skip
        trace = replace(made.profile.trace, modules=("Net", path), shapes=shapes, records=(call,))
        root = ModuleFact("Net", "Net", False, 0, True, {})
        loop = next((number for number, text in enumerate(lines, 1) if text.startswith("for ")), 1)
        profile = replace(made.profile, trace=trace, modules=(root, layer), loop_line=CodeLine(SCRIPT, loop))
        return replace(made, profile=profile)

    return make


START = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
CLASS = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 64)
        self.head = nn.Linear(64, 50_000)

    def forward(self, x):
        x = self.body(x)
        return self.head(x)
"""
LOOP = """model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for x, y in data:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
MADE = "nn.AdaptiveLogSoftmaxWithLoss(64, 50_000, cutoffs=[2500, 11180], head_bias=True)"
SWITCHED = CLASS.replace("nn.Linear(64, 50_000)", MADE).replace(
    "return self.head(x)", "return x if self.training else self.head.log_prob(x)"
)


def test_the_loop_gives_the_inputs_of_the_layer_to_the_layer(net):
    expected = LOOP.replace("criterion(model(x), y)", "model.head(model(x), y).loss")
    assert net(START + CLASS + LOOP).edited("adaptive_softmax") == START + SWITCHED + expected


def test_named_outputs_function_and_value(net):
    before = LOOP.replace(
        "loss = criterion(model(x), y)", "out = model(x)\n    loss = F.cross_entropy(out, y)"
    )
    after = LOOP.replace(
        "loss = criterion(model(x), y)", "out = model(x)\n    loss = model.head(out, y).loss"
    )
    expected = START + SWITCHED.replace("2500, 11180", "1000, 7071") + after
    assert net(START + CLASS + before).edited("adaptive_softmax=1000") == expected


def test_positions_are_rows_and_other_results_stay(net):
    text = CLASS.replace("nn.Linear(64, 50_000)", "nn.Linear(64, 50_000, bias=False)")
    text = text.replace("return self.head(x)", "logits = self.head(x)\n        return logits, x")
    loop = LOOP.replace(
        "loss = criterion(model(x), y)",
        "out, hidden = model(x)\n    loss = criterion(out.view(-1, 50_000), y.view(-1))",
    )
    made = MADE.replace(", head_bias=True", "")
    expected = text.replace("nn.Linear(64, 50_000, bias=False)", made).replace(
        "logits = self.head(x)",
        "logits = x if self.training else self.head.log_prob(x.flatten(0, -2)).unflatten(0, x.shape[:-1])",
    )
    after = loop.replace(
        "criterion(out.view(-1, 50_000), y.view(-1))", "model.head(out.flatten(0, -2), y.view(-1)).loss"
    )
    assert net(START + text + loop, (4, 8, WIDTH)).edited("adaptive_softmax") == START + expected + after


def test_one_name_for_inputs_and_outputs(net):
    text = CLASS.replace("return self.head(x)", "x = self.head(x)\n        return x")
    expected = SWITCHED.replace("return x if", "x = x if").replace(
        "log_prob(x)\n", "log_prob(x)\n        return x\n"
    )
    after = LOOP.replace("criterion(model(x), y)", "model.head(model(x), y).loss")
    assert net(START + text + LOOP).edited("adaptive_softmax") == START + expected + after


GPT = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 50_000, bias=False)

    def forward(self, x, targets=None):
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss
"""
GPT_LOOP = """model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    logits, loss = model(x, y)
    loss.backward()
    optimizer.step()
"""


def test_a_loss_in_the_model_is_computed_by_the_layer(net):
    rows = "x.flatten(0, -2)[targets.view(-1) != -1], targets.view(-1)[targets.view(-1) != -1]"
    expected = (
        GPT.replace("nn.Linear(64, 50_000, bias=False)", MADE.replace(", head_bias=True", ""))
        .replace(
            "logits = self.head(x)",
            "logits = None if self.training else "
            "self.head.log_prob(x.flatten(0, -2)).unflatten(0, x.shape[:-1])",
        )
        .replace(
            "F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)",
            f"self.head({rows}).loss",
        )
    )
    assert (
        net(START + GPT + GPT_LOOP, (4, 8, WIDTH)).edited("adaptive_softmax") == START + expected + GPT_LOOP
    )


def test_a_second_time_changes_nothing(net):
    made = net(START + CLASS + LOOP)
    again = made.after(made.plan("adaptive_softmax")).plan("adaptive_softmax")
    assert again.edits == ()
    assert again.refused == ()


def test_it_says_how_labels_are_to_be_numbered(net):
    assert "most frequent" in net(START + CLASS + LOOP).plan("adaptive_softmax").notes[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("criterion(model(x), y)", "criterion(model(x), y) + model.head.weight.sum()", "more than one place"),
        ("        self.head = ", "        self.head = self.other = ", "not an attribute of its own"),
        ("return self.head(x)", "return self.head(x).softmax(-1)", "works on the outputs"),
        ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(label_smoothing=0.1)", "no plain cross entropy"),
        ("criterion(model(x), y)", "F.cross_entropy(model(x), y, label_smoothing=0.1)", "label_smoothing"),
        ("criterion(model(x), y)", "F.cross_entropy(model(x), y, w)", "no counterpart"),
        (
            "loss = criterion(model(x), y)",
            "out = model(x)\n    print(out.argmax(1))\n    loss = criterion(out, y)",
            "more than the loss",
        ),
        ("    optimizer.step()\n", "    optimizer.step()\nprint(model(x))\n", "eval()"),
    ],
)
def test_what_is_refused(net, old, new, said):
    text = START + CLASS + LOOP
    assert old in text
    assert said in net(text.replace(old, new)).reason("adaptive_softmax")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return logits, loss", "return logits.softmax(-1), loss", "more than the loss"),
        ("        loss = None\n", "        loss = None\n        print(logits)\n", "more than the loss"),
        (
            "        loss = None\n",
            "        loss = None\n        x = x * 2\n",
            "changes before the loss is computed",
        ),
        ("self.head(x)", "self.head(x + 1)", "is needed twice"),
        ("logits", "x", "both the inputs and the outputs"),
    ],
)
def test_what_is_refused_in_the_model(net, old, new, said):
    assert said in net(START + GPT.replace(old, new) + GPT_LOOP, (4, 8, WIDTH)).reason("adaptive_softmax")


def test_a_refusal_names_the_lines_to_change_by_hand(net):
    text = CLASS.replace("return self.head(x)", "x = self.head(x)\n        return F.log_softmax(x, dim=1)")
    loop = LOOP.replace("nn.CrossEntropyLoss()", "nn.NLLLoss()")
    (refused,) = net(START + text + loop).plan("adaptive_softmax").refused
    assert (
        "# train.py:8\nself.head = nn.AdaptiveLogSoftmaxWithLoss(64, 50_000, cutoffs=[2500, 11180]"
        in refused.snippet
    )
    assert "# train.py:12: self.head" in refused.snippet
    assert "train.py:19: criterion(model(x), y)" in refused.snippet
    assert "loss = model.head(inputs, y).loss" in refused.snippet


def test_a_program_without_such_a_layer(workshop):
    made = workshop("import torch\no = torch.optim.SGD(m.parameters())\n", optimizers=(("SGD", None),))
    assert "No large layer" in made.reason("adaptive_softmax=100")
