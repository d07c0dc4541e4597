"""The interval between checkpoints is changed where the source says it by steps, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import BatchFact
from skyline.trace.observed_training import ObservedSave, ObservedTraining
from skyline.trace.record import BareTimes, CodeLine

SCRIPT = "/project/train.py"
START = "import torch\nfrom torch import nn\n"
REST = """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, (x, y) in enumerate(data):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
SAVE = "    if step % 100 == 0:\n        torch.save(model.state_dict(), 'model.pt')\n"


@pytest.fixture
def script(workshop):
    def make(text, **given):
        made = workshop(START + text, optimizers=(("SGD", None),), **given)
        lines = (START + text).splitlines()
        loop = next(number for number, line in enumerate(lines, 1) if line.lstrip().startswith("for step"))
        times = BareTimes((200.0,) * 9, (0.0,) * 9, (1.0,) * 9, (1.0,) * 9)
        return replace(made, profile=replace(made.profile, loop_line=CodeLine(SCRIPT, loop), times=times))

    return make


@pytest.mark.parametrize(
    ("value", "written"),
    [("500", "500"), ("10min", "3000"), ("1.5h", "27000"), ("100", "100")],
)
def test_steps_and_times(script, value, written):
    expected = START + REST + SAVE.replace("100", written)
    assert script(REST + SAVE).edited(f"checkpoint_every={value}") == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if step % 100 == 0:", "if (step + 1) % 100 == 0 and step > 10:"),
        ("if step % 100 == 0:", "if not step % 100:"),
        ("if step % 100 == 0:\n", "if step % 100 == 0:\n        print('saving', step)\n"),
    ],
)
def test_conditions(script, old, new):
    text = REST + SAVE.replace(old, new)
    assert script(text).edited("checkpoint_every=500") == START + text.replace("100", "500")


def test_a_variable_an_option_and_a_function(script):
    text = "EVERY = 100\n" + REST + SAVE.replace("100", "EVERY")
    assert script(text).edited("checkpoint_every=500") == START + text.replace("EVERY = 100", "EVERY = 500")
    parsed = (
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--every', type=int, default=100)\nargs = parser.parse_args()\n"
    )
    text = parsed + REST + SAVE.replace("100", "args.every")
    assert script(text).edited("checkpoint_every=500") == START + text.replace("default=100", "default=500")
    assert "--every" in script(text, arguments=("--every", "7")).reason("checkpoint_every=500")
    function = (
        "def save(model, path):\n    if model is not None:\n        torch.save(model.state_dict(), path)\n"
    )
    text = function + REST + "    if step % 100 == 0:\n        save(model, 'model.pt')\n"
    assert script(text).edited("checkpoint_every=500") == START + text.replace("100", "500")


def test_what_belongs_to_a_save_may_stand_beside_it(script):
    function = (
        "def keep(model):\n    torch.save(model.state_dict(), 'last.pt')\n    torch.save(model, 'all.pt')\n"
    )
    save = (
        "    if step % 100 == 0:\n"
        "        plain = model.module if isinstance(model, nn.DataParallel) else model\n"
        "        plain = getattr(plain, '_orig_mod', plain)\n"
        "        torch.save({k: v.half().cpu() for k, v in plain.state_dict().items()}, 'model.pt')\n"
        "        keep(model)\n"
    )
    text = function + REST + save
    assert script(text).edited("checkpoint_every=500") == START + text.replace("100", "500")


def test_a_counter_of_batches_counts_those_that_a_step_accumulates(script):
    accumulating = REST.replace(
        "    optimizer.step()\n", "    if (step + 1) % 4 == 0:\n        optimizer.step()\n"
    )
    made = script(accumulating + SAVE)
    four = replace(made, profile=replace(made.profile, batch=BatchFact((16,), 64, micro_batches=4)))
    assert made.edited("checkpoint_every=500") == START + accumulating + SAVE.replace("100", "500")
    assert four.edited("checkpoint_every=500") == START + accumulating + SAVE.replace("100", "2000")
    counted = REST.replace(
        "    loss.backward()\n", "    for part in loss.split(4):\n        part.backward()\n"
    )
    made = script(counted + SAVE)
    four = replace(made, profile=replace(made.profile, batch=BatchFact((16,), 64, micro_batches=4)))
    assert four.edited("checkpoint_every=500") == START + counted + SAVE.replace("100", "500")


def test_the_best_interval_is_that_of_an_observed_training(script):
    made = script(REST + SAVE)
    seen = ObservedTraining(16, (), 500, 200.0, 8.0, 0.0, None, saves=(ObservedSave(100, 2.0, 300),))
    known = replace(made, profile=replace(made.profile, training=seen))
    # 2 s to save, 1145 hours between failures: the root of twice their product is 4060.5 s, and Daly takes 1.3 s off.
    assert known.edited("checkpoint_every") == START + REST + SAVE.replace("100", "20296")
    assert "skyline estimate train.py" in made.reason("checkpoint_every")


EPOCHS = """optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for step, (x, y) in enumerate(data):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (REST, "does not call torch.save"),
        (EPOCHS + "    torch.save(model, 'model.pt')\n", "after an epoch or at its end"),
        (EPOCHS + "    if epoch % 10 == 0:\n        torch.save(model, 'model.pt')\n", "counts epochs"),
        (REST + SAVE + SAVE, "More than one condition"),
        (REST + SAVE.replace("100", "len(data)"), "computed when the script runs"),
        (REST + SAVE.replace("100 == 0", "100 == 0 and step % 3 == 0"), "more than one interval"),
        (REST + SAVE.replace("        torch", "        evaluate(model)\n        torch"), "more than saving"),
        (
            REST
            + "    if step % 100 == 0:\n        print(step)\n    else:\n        torch.save(model, 'm')\n",
            "No condition",
        ),
    ],
)
def test_what_is_refused(script, text, said):
    assert said in script(text).reason("checkpoint_every=500")


@pytest.mark.parametrize("value", ["0", "often", "1.5", "-3"])
def test_what_is_no_interval(script, value):
    assert "not a value" in script(REST + SAVE).reason(f"checkpoint_every={value}")


def test_a_callback_counts_steps_where_that_was_seen(script):
    text = "def saved(step):\n" + SAVE + REST + "    call_back(step)\n"
    made = script(text)
    assert "not known to count steps" in made.reason("checkpoint_every=500")
    line = CodeLine(SCRIPT, 5)
    saves = tuple(ObservedSave(number, 2.0, 300, line) for number in (100, 200, 300))
    seen = ObservedTraining(16, (), 500, 200.0, 8.0, 0.0, None, saves=saves)
    known = replace(made, profile=replace(made.profile, training=seen))
    assert known.edited("checkpoint_every=500") == START + text.replace("100", "500")
    other = tuple(replace(one, iteration=3 * one.iteration) for one in saves)
    elsewhere = replace(made, profile=replace(made.profile, training=replace(seen, saves=other)))
    assert "not known to count steps" in elsewhere.reason("checkpoint_every=500")
