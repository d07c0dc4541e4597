"""The model is compiled where it is complete, by whoever trains it; its weights keep their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import OptimizerFact
from skyline.trace.record import CodeLine

HEAD = "import torch\nmodel = Net()\n"
OPTIMIZER = "optimizer = torch.optim.Adam(model.parameters())\n"
LOOP = "for x, y in loader:\n    loss = f(model(x), y)\n    loss.backward()\n    optimizer.step()\n"

REWRITTEN = {
    "plain": (HEAD + OPTIMIZER + LOOP, HEAD + "model.compile()\n" + OPTIMIZER + LOOP),
    "behind the device": (
        HEAD + "model = model.to(device)  # é\n" + OPTIMIZER + LOOP,
        HEAD + "model = model.to(device)  # é\nmodel.compile()\n" + OPTIMIZER + LOOP,
    ),
    "saved weights stay": (
        HEAD + OPTIMIZER + LOOP + "torch.save(model.state_dict(), 'net.pt')\n",
        HEAD + "model.compile()\n" + OPTIMIZER + LOOP + "torch.save(model.state_dict(), 'net.pt')\n",
    ),
    "attributes, tabs, one line": (
        (
            "import torch\nclass T:\n\tdef __init__(self):\n"
            "\t\tself.net = Net(); self.opt = torch.optim.SGD(self.net.parameters(), 1)\n"
            "\tdef fit(self):\n\t\tfor x in self.loader:\n\t\t\tself.net(x).sum().backward()\n\t\t\tself.opt.step()\n"
        ),
        (
            "import torch\nclass T:\n\tdef __init__(self):\n\t\tself.net = Net(); self.net.compile(); "
            "self.opt = torch.optim.SGD(self.net.parameters(), 1)\n"
            "\tdef fit(self):\n\t\tfor x in self.loader:\n\t\t\tself.net(x).sum().backward()\n\t\t\tself.opt.step()\n"
        ),
    ),
    "in functions": (
        (
            "import torch\ndef step(net, x, opt):\n  net(x).sum().backward()\n  opt.step()\n"
            "def main():\n  net = Net()\n"
            "  opt = torch.optim.SGD(net.parameters(), lr=1)\n  for x in loader:\n    step(net, x, opt)\nmain()\n"
        ),
        (
            "import torch\ndef step(net, x, opt):\n  net(x).sum().backward()\n  opt.step()\n"
            "def main():\n  net = Net()\n"
            "  net.compile()\n"
            "  opt = torch.optim.SGD(net.parameters(), lr=1)\n  for x in loader:\n    step(net, x, opt)\nmain()\n"
        ),
    ),
    "a class with a compile of its own": (
        "import torch\nclass Net(torch.nn.Module):\n    def compile(self): pass\nmodel = Net()\n"
        + OPTIMIZER
        + LOOP,
        (
            "import torch\nclass Net(torch.nn.Module):\n    def compile(self): pass\nmodel = Net()\n"
            "model = torch.compile(model)\n" + OPTIMIZER + LOOP
        ),
    ),
    "compiled already": (HEAD + "model.compile()\n" + OPTIMIZER + LOOP,) * 2,
    "compiled already, by function": (HEAD + "model = torch.compile(model)\n" + OPTIMIZER + LOOP,) * 2,
    "under the main guard": (
        "import torch\nif __name__ == '__main__':\n    model = torch.compile(Net())\n    optimizer = o(model)\n",
    )
    * 2,
    "trainer": (
        (
            "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments('out', num_train_epochs=1)\n"
            "Trainer(model=m, args=args).train()\n"
        ),
        (
            "from transformers import Trainer, TrainingArguments\n"
            "args = TrainingArguments('out', num_train_epochs=1, torch_compile=True)\n"
            "Trainer(model=m, args=args).train()\n"
        ),
    ),
    "lightning": (
        "import lightning as L\nmodel = Net()\ntrainer = L.Trainer(max_epochs=1)\ntrainer.fit(model, loader)\n",
        (
            "import lightning as L\nimport torch\nmodel = Net()\ntrainer = L.Trainer(max_epochs=1)\n"
            "trainer.fit(torch.compile(model), loader)\n"
        ),
    ),
}

REFUSED = {
    "on a condition": (
        HEAD + "if fast:\n    model = torch.compile(model)\n" + OPTIMIZER + LOOP,
        "on a condition",
    ),
    "past the call": (
        HEAD + OPTIMIZER + LOOP.replace("model(x)", "model.forward(x)"),
        "bypasses the compiled model",
    ),
    "a plain object that holds the model": (
        "import torch\nclass Job:\n    def __init__(self):\n        self.net = Net()\nmodel = Job()\n"
        + OPTIMIZER.replace("model.", "model.net.")
        + LOOP,
        "`model` is an object of a plain class that holds the model",
    ),
    "two models": (
        "import torch\na = A()\nb = B()\nopt_a = torch.optim.SGD(a.parameters(), 1)\n"
        "opt_b = torch.optim.SGD(b.parameters(), 1)\n" + LOOP,
        "More than one call",
    ),
    "TorchScript": ("import torch\nmodel = torch.jit.script(Net())\n" + OPTIMIZER + LOOP, "TorchScript"),
    "no call": (HEAD + OPTIMIZER + LOOP.replace("f(model(x), y)", "compute(x, y)"), "No call of"),
}


@pytest.mark.parametrize("shape", REWRITTEN)
def test_rewritten(workshop, shape):
    before, after = REWRITTEN[shape]
    assert workshop(before).edited("compile") == after
    # A change already made is not made again.
    assert workshop(after).edited("compile") == after


@pytest.mark.parametrize("shape", REFUSED)
def test_refused(workshop, shape):
    before, reason = REFUSED[shape]
    assert reason in workshop(before).reason("compile")


def test_a_mode_is_written_and_changed(workshop):
    source = HEAD + OPTIMIZER + LOOP
    reduced = source.replace("Net()\n", 'Net()\nmodel.compile(mode="reduce-overhead")\n')
    assert workshop(source).edited("compile=reduce-overhead") == reduced
    assert workshop(source.replace("Net()\n", "Net()\nmodel.compile()\n")).edited("cuda_graphs") == reduced
    assert workshop(source).edited("cuda_graphs") == reduced
    # The one writes, the other adds to what was written.
    assert workshop(source).edited("cuda_graphs", "compile") == reduced


def test_graphs_recorded_by_hand_are_left_alone(workshop):
    source = HEAD + "graph = torch.cuda.CUDAGraph()\n" + OPTIMIZER + LOOP
    assert "by itself" in workshop(source).reason("cuda_graphs")


def test_without_compiling_in_place_saved_weights_would_change_their_names(workshop):
    old = workshop(HEAD + OPTIMIZER + LOOP + "torch.save(model.state_dict(), 'net.pt')\n")
    environment = replace(old.profile.environment, torch="2.1.2")
    shop = replace(old, profile=replace(old.profile, environment=environment))
    refused = shop.plan("compile").refused[0]
    assert "_orig_mod." in refused.reason
    assert "torch.compile(model)" in refused.snippet
    plain = workshop(HEAD + OPTIMIZER + LOOP)
    shop = replace(plain, profile=replace(plain.profile, environment=environment))
    assert "model = torch.compile(model)\n" in shop.edited("compile")


def test_compile_of_keras_is_another(workshop):
    keras = 'model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])\n'
    assert workshop(HEAD + keras + OPTIMIZER + LOOP).present("compile") is None
    assert workshop(HEAD + "model.compile(dynamic=True)\n" + OPTIMIZER + LOOP).present("compile") == "default"
    imported = "import keras\n" + HEAD
    assert workshop(imported + "model.compile(**settings)\n" + OPTIMIZER + LOOP).present("compile") is None
    assert (
        workshop(imported + "model.compile(dynamic=True)\n" + OPTIMIZER + LOOP).present("compile")
        == "default"
    )


def test_a_model_of_keras_is_not_compiled_in_place(workshop):
    shop = workshop("from keras import layers\n" + HEAD + OPTIMIZER + LOOP)
    assert "model = torch.compile(model)\n" in shop.edited("compile")


def test_a_model_that_an_optimizer_of_keras_trains_is_refused(workshop):
    shop = workshop(
        "import keras\nmodel = Net()\nmodel.compile(optimizer='adam', loss='mse')\nmodel.fit(x, y)\n"
    )
    fact = OptimizerFact(
        "keras.optimizers.Adam", 1, 2, 100, 800, {}, None, CodeLine(shop.profile.script, 3, "<module>")
    )
    shop = replace(shop, profile=replace(shop.profile, optimizers=(fact,)))
    assert shop.reason("compile") == "keras.optimizers.Adam is not a PyTorch optimizer."
    assert "keras.optimizers.Adam has no fused form" in shop.reason("fused_optimizer")


TWO_OPTIMIZERS = (
    "first = torch.optim.Adam(netD.parameters())\nsecond = torch.optim.Adam(netG.parameters())\n"
    "for x in loader:\n    loss = f(netD(x), netD(netG(noise())))\n    loss.backward()\n"
    "    first.step()\n    second.step()\n"
)


@pytest.mark.parametrize(
    ("made", "after"),
    [
        (
            "netG = G()\nnetD = D()\nnetD.to(device)\n",
            "netG = G()\nnetG.compile()\nnetD = D()\nnetD.to(device)\nnetD.compile()\n",
        ),
        ("netD, netG = make()\n", "netD, netG = make()\nnetD.compile()\nnetG.compile()\n"),
    ],
)
def test_every_trained_model_is_compiled(workshop, made: str, after: str) -> None:
    places = (made.count("\n") + 2, made.count("\n") + 3)
    shop = workshop(
        "import torch\n" + made + TWO_OPTIMIZERS, optimizers=tuple(("Adam", line) for line in places)
    )
    assert shop.edited("compile") == "import torch\n" + after + TWO_OPTIMIZERS


def test_a_model_that_is_made_in_several_places_is_not_compiled(workshop) -> None:
    source = (
        "import torch\ndef go(net):\n    opt = torch.optim.Adam(net.parameters())\n"
        "    for x in loader:\n        net(x).sum().backward()\n        opt.step()\n"
    )
    source += "model = A()\ngo(model)\nmodel = B()\ngo(model)\n"
    shop = workshop(source, optimizers=(("Adam", 3),))
    assert shop.plan("compile").edits == ()


@pytest.mark.parametrize(
    ("backward", "said"),
    [
        ("loss.backward(retain_graph=True)", "keeps what compiled code frees"),
        ("loss.backward(create_graph=again)", "differentiates the backward pass"),
        (
            "slope, = torch.autograd.grad(loss, x, create_graph=True); slope.sum().backward()",
            "differentiates",
        ),
    ],
)
def test_graphs_that_outlive_their_backward_pass_are_not_compiled(workshop, backward: str, said: str) -> None:
    loop = LOOP.replace("loss.backward()", backward)
    assert said in workshop(HEAD + OPTIMIZER + loop, optimizers=(("Adam", 3),)).reason("compile")
    plain = LOOP.replace("loss.backward()", "loss.backward(retain_graph=False)")
    assert ".compile()" in workshop(HEAD + OPTIMIZER + plain, optimizers=(("Adam", 3),)).edited("compile")
