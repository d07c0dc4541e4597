"""The places that rewrites ask for are found wherever the script has them, or refused with the reason."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from skyline.errors import RewriteRefused
from skyline.rewrite.catalogue.num_workers import training_loader
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.iteration import framework, iteration
from skyline.rewrite.sites.model import model
from skyline.rewrite.sites.model_uses import model_uses
from skyline.rewrite.sites.passes import backward, forward, optimizer_calls, step, steps, zero_grads
from skyline.rewrite.sites.transfer import transfers

PLAIN = """\
import torch
from torch.optim.lr_scheduler import StepLR
model = Net()
model = model.to(device)
optimizer = torch.optim.Adam(model.parameters())
scheduler = StepLR(optimizer, 1)
loader = DataLoader(data)
for epoch in range(2):
    for x, y in loader:
        x = x.to(device)
        optimizer.zero_grad()
        out = model(x)
        print(out.to(torch.float32))
        loss = f(out, y.cuda())
        loss.backward()
        optimizer.step()
        scheduler.step()
    scheduler.step()
"""
IN_CLASS = """\
import torch
class Trainer:
    def __init__(self):
        self.net = Net().cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1)
        self.loader = DataLoader(data)
    def losses(self, x):
        return self.net(x).sum()
    def one(self, batch):
        x = {k: v.to(self.device) for k, v in batch.items()}
        self.opt.zero_grad()
        loss = self.losses(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
    def fit(self):
        for batch in self.loader:
            self.one(batch)
Trainer().fit()
"""
IN_FUNCTIONS = """\
import torch
from torch import optim
def train(net, loader, opt, device):
    net.train()
    for x in loader:
        x, = x[0].to(device, non_blocking=True),
        loss = net(x).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
def optimizer_for(module):
    groups = [{"params": module.parameters()}]
    return optim.Adam(groups)
def main():
    network = Net()
    network.to("cuda")
    if half:
        network = network.half()
    opt = optimizer_for(network)
    train(network, DataLoader(data), opt, "cuda")
main()
"""
SOURCES = {"plain": PLAIN, "class": IN_CLASS, "functions": IN_FUNCTIONS}


@pytest.fixture
def context(workshop) -> Callable[[str], RewriteContext]:
    def make(
        source: str, optimizers: tuple[tuple[str, int | None], ...] = (("Adam", None),)
    ) -> RewriteContext:
        shop = workshop(source, optimizers=optimizers)
        return RewriteContext(shop.profile, shop.read)

    return make


def lines(*nodes: ast.AST) -> list[int]:
    return [getattr(node, "lineno", 0) for node in nodes]


@pytest.mark.parametrize(
    ("name", "loop", "forward_lines", "backward_line", "step_line", "zero_line", "moved", "ready", "made"),
    [
        ("plain", 9, [12, 13, 14], 15, 16, 11, [10, 14], 4, 5),
        ("class", 16, [12], 13, 14, 11, [10], 4, 5),
        ("functions", 5, [7], 8, 9, 10, [6], 17, 13),
    ],
)
def test_every_site(
    context,
    name: str,
    loop: int,
    forward_lines: list[int],
    backward_line: int,
    step_line: int,
    zero_line: int,
    moved: list[int],
    ready: int,
    made: int,
) -> None:
    here = context(SOURCES[name], (("SGD" if name == "class" else "Adam", None),))
    within = iteration(here)
    assert within.loop.lineno == loop
    assert lines(*forward(here, within).statements) == forward_lines
    assert backward(here, within).call.lineno == backward_line
    assert lines(*(site.call for site in steps(here, within))) == [step_line]
    (emptied,) = zero_grads(here, within)
    assert emptied.call.lineno == zero_line
    assert lines(*(site.call for site in transfers(here, within))) == moved
    assert model(here).statement.lineno == ready
    assert lines(*(call for _, call in optimizer_calls(here))) == [made]
    assert training_loader(here)[1].lineno


def test_what_a_scaler_is_given(context) -> None:
    here = context(IN_CLASS, (("SGD", None),))
    assert ast.unparse(backward(here).loss) == "loss"
    assert ast.unparse(backward(here).scaler or ast.Name("")) == "self.scaler"
    assert ast.unparse(step(here).optimizer) == "self.opt"
    assert not step(here).has_closure


def test_the_model_keeps_its_name(context) -> None:
    assert model(context(IN_FUNCTIONS)).text == "network"
    site = model(context(IN_CLASS, (("SGD", None),)))
    assert (site.text, ast.unparse(site.value or ast.Name(""))) == ("self.net", "Net().cuda()")


@pytest.mark.parametrize(
    ("source", "kind", "owns", "switches"),
    [
        ("import lightning as L\nL.Trainer().fit(m)\n", "lightning", True, True),
        ("from pytorch_lightning.cli import LightningCLI as C\nC(M)\n", "lightning", True, False),
        (
            "from transformers import Trainer as T, TrainingArguments as A\nT(m, A('o'))\n",
            "transformers",
            True,
            True,
        ),
        ("from trl import SFTTrainer\nSFTTrainer(m)\n", "transformers", True, False),
        ("import accelerate\na = accelerate.Accelerator()\n", "accelerate", False, True),
        ("from lightning import Fabric\nf = Fabric()\n", "fabric", False, True),
    ],
)
def test_frameworks(context, source: str, kind: str, owns: bool, switches: bool) -> None:
    here = context(source)
    found = framework(here)
    assert found is not None
    assert (found.kind, found.owns_loop, found.takes_switches) == (kind, owns, switches)
    if owns:
        with pytest.raises(RewriteRefused, match=found.title):
            iteration(here)


def test_no_framework_is_seen_where_there_is_none(context) -> None:
    assert framework(context("class Trainer: pass\nTrainer()\n" + PLAIN)) is None


@pytest.mark.parametrize(
    ("source", "search", "said"),
    [
        ("x = 1\n", iteration, "No loop"),
        (PLAIN.replace("loss.backward()", "loss.backward(); loss.backward()"), backward, "more than one"),
        (PLAIN.replace("        loss.backward()\n", ""), backward, "No `backward"),
        (PLAIN.replace("optimizer.step()", "optimizer.step(); optimizer.step()"), step, "more than one"),
        (PLAIN.replace("loss.backward", "loss.mean().backward"), forward, "computed where"),
        (PLAIN.replace("model(x)", "g(x)"), forward, "call of the model"),
        (PLAIN.replace("torch.optim.Adam(", "make_optimizer("), optimizer_calls, "No call"),
        ("x = 1\n", training_loader, r"There is no DataLoader\(…\) call"),
        ("a = DataLoader(d, 8)\nb = DataLoader(e, 8)\n", training_loader, "Several DataLoaders"),
        (PLAIN.replace("model.parameters()", "params"), model, "cannot be traced"),
        (PLAIN.replace("model.parameters()", "[*model.parameters(), *other.parameters()]"), model, "other"),
        (IN_FUNCTIONS + "train(Net(), DataLoader(d), optimizer_for(third), 'cpu')\n", model, "third"),
    ],
)
def test_refused_with_the_reason(context, source: str, search: Callable[..., object], said: str) -> None:
    with pytest.raises(RewriteRefused, match=said):
        search(context(source))


def test_only_what_the_loop_makes_is_a_batch(context) -> None:
    source = "for x in y:\n    x.to(device)\n    weights.to(device)\n    model(x).backward()\n"
    assert lines(*(site.call for site in transfers(context(source, ())))) == [2]


def test_none_is_an_answer_where_several_are_asked_for(context) -> None:
    here = context("for x in y:\n    x.backward()\n", ())
    assert (steps(here), zero_grads(here), transfers(here)) == ((), (), ())


def test_optimizers_are_picked_by_what_the_run_told(context) -> None:
    source = "import torch\na = torch.optim.Adam(p)\nb = torch.optim.SGD(q)\n"
    here = context(source, (("Adam", 2), ("SGD", 3)))
    assert lines(*(call for _, call in optimizer_calls(here))) == [2, 3]
    assert lines(*(call for _, call in optimizer_calls(here, ("SGD",)))) == [3]
    assert optimizer_calls(here, (), lambda fact: fact.name == "none") == ()


@pytest.mark.parametrize(
    ("calls", "count"), [("pass", "no"), ("DataLoader(d, 2); DataLoader(d, 2)", "more than one")]
)
def test_a_line_that_does_not_make_one_loader_is_refused(workshop, calls: str, count: str) -> None:
    source = f"loader = DataLoader(d, batch_size=16)\n{calls}\n"
    assert f"Line 2 holds {count} DataLoader(…) call" in workshop(source, loader_line=2).reason(
        "num_workers=2"
    )


AT_TOP = "import torch\nmodel = Net()\ndef make():\n    return torch.optim.Adam(model.parameters())\nmake()\n"
IN_METHODS = """\
import torch
class Task:
    def build(self):
        self.net = Net()
    def optimizer(self):
        return torch.optim.Adam(self.net.parameters())
"""


CHANGED_ELSEWHERE = (
    IN_METHODS
    + """\
    def fit(self):
        self.net.train()
    def restore(self, path):
        self.net.load_state_dict(torch.load(path))
"""
)
IN_LISTS = """\
import torch
model = Net()
kept, rest = [], []
for name, weight in model.named_parameters():
    if weight.requires_grad:
        (kept if weight.dim() > 1 else rest).append(weight)
groups = [{"params": kept}, {"params": rest, "weight_decay": 0.0}]
torch.optim.Adam(groups)
"""


@pytest.mark.parametrize(
    ("source", "text", "line"),
    [
        (AT_TOP, "model", 2),
        (IN_METHODS, "self.net", 4),
        (CHANGED_ELSEWHERE, "self.net", 4),
        (IN_LISTS, "model", 2),
    ],
    ids=["file", "class", "class that changes it in place", "lists that a loop fills"],
)
def test_a_model_that_its_optimizer_does_not_see_made(context, source: str, text: str, line: int) -> None:
    site = model(context(source))
    assert (site.text, site.statement.lineno, ast.unparse(site.value or ast.Name(""))) == (
        text,
        line,
        "Net()",
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (AT_TOP.replace("model = Net()\n", ""), "The place where `model` is made is unknown"),
        (IN_METHODS.replace("self.net = Net()", "pass"), "The place where `self.net` is made is unknown"),
        (AT_TOP.replace("make():", "make(model):"), "No call of `make` shows where `model` is made"),
    ],
)
def test_a_model_whose_making_is_not_told(context, source: str, said: str) -> None:
    with pytest.raises(RewriteRefused, match=said):
        model(context(source))


def test_only_one_model_is_trained(context) -> None:
    source = AT_TOP + "other = Net()\ntorch.optim.SGD(other.parameters())\n"
    with pytest.raises(RewriteRefused, match="More than one model is trained: `model`, `other`"):
        model(context(source, (("Adam", None), ("SGD", None))))


FOLLOWED = """\
import torch
class Trainer:
    def __init__(self, net):
        self.net = net
    def run(self, x):
        return self.net(x)
class Score:
    def forward(self, net):
        return net.bias
def named(net):
    return net, 1
def same(net):
    return net
model = Net()
torch.optim.Adam(model.parameters())
other, count = named(model)
third = same(net=model)
fourth: Net = third
score = Score()
Trainer(model)
score(model)
same(model)
other(x)
fourth(x)
save(model)
"""


def test_the_model_is_followed_through_names_calls_and_objects(context) -> None:
    here = context(FOLLOWED)
    uses = model_uses(here, model(here))
    assert sorted(lines(*(use.node for use in uses if use.is_forward))) == [6, 23, 24]
    assert [ast.unparse(use.handed_to) for use in uses if use.handed_to is not None] == ["save(model)"]
    assert 9 in lines(*(use.node for use in uses))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("print(same(model))", r"`same\(model\)` returns the model, which cannot be followed from there"),
        ("third.far.net = model", "`third.far.net` is bound to the model, and cannot be followed"),
        ("every = [model]", r"The model goes into `\[model\]`"),
        ("def rest(*nets): pass\nrest(model)", "takes the model in a way that cannot be followed"),
        ("Trainer(model).net.eval()", "may be the model of Trainer"),
        ("one, two = same(model)", r"`\(one, two\)` is bound to the model, and cannot be followed"),
    ],
)
def test_a_model_that_cannot_be_followed(context, line: str, said: str) -> None:
    here = context(FOLLOWED + line + "\n")
    with pytest.raises(RewriteRefused, match=said):
        model_uses(here, model(here))
