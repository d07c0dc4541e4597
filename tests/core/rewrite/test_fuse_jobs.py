"""Rewritten scripts train each run as it trains alone; all others are refused with the line and the lines to write."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

SCRIPT = "/project/train.py"
JOBS = 3
HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

history = []
torch.manual_seed(7)
"""
SCRIPTS = Path(__file__).parents[2] / "data" / "fuse_jobs"
PLAIN, CONVOLUTIONS = (
    (SCRIPTS / name).read_text(encoding="utf-8") for name in ("perceptron.py", "convolutions.py")
)
CRITERION = f"""{HEAD}\
device = torch.device("cpu")
batches = [(torch.randn(16, 4), torch.randn(16, 1)) for _ in range(6)]
model = nn.Sequential(
    nn.Linear(4, 8),  # wide
    nn.Tanh(),
    nn.Linear(8, 1),
)
model.to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(params=model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
for inputs, targets in batches:
    optimizer.zero_grad()
    outputs = model(inputs)
    # the mean over the batch
    loss = criterion(
        outputs,
        targets,
    )
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    shown = outputs.sum().item()
"""
TRANSFORMER = f"""{HEAD}\

class Net(nn.Module):
    def __init__(self, width, dropout=0.0):
        super().__init__()
        self.letters = nn.Embedding(10, width, padding_idx=3)
        self.places = nn.Embedding(6, width)
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 10, bias=False)
        self.head.weight = self.letters.weight
        self.register_buffer("mask", torch.triu(torch.full((6, 6), float("-inf")), 1))

    def forward(self, text):
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.layers(x, mask=self.mask))


batches = [torch.randint(10, (4, 7)) for _ in range(6)]
net: nn.Module = Net(8)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
step = 0
while step < len(batches):
    text = batches[step]
    logits = net(text[:, :-1])
    loss = criterion(logits.flatten(0, 1), text[:, 1:].flatten())
    loss = loss / 2
    net.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    step += 1
model = net
"""
OWN_LOSS = f"""{HEAD}\

class GPT(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.letters = nn.Embedding(10, width)
        self.qkv, self.head = nn.Linear(width, 3 * width), nn.Linear(width, 10)

    def forward(self, text, targets=None):
        q, k, v = self.qkv(self.letters(text)).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)
        logits = self.head(mixed[:, 0])
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, 10), targets.reshape(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, text):
        return self(text)[0][:, -1].argmax(-1)


batches = [torch.randint(10, (4, 7)) for _ in range(6)]
kind = "gpt"
if kind == "gpt":
    model = GPT(8)
elif kind == "deep":
    model = nn.Sequential(GPT(8), GPT(8))
else:
    raise ValueError(kind)
model.to("cpu")
if kind == "resume":
    model.load_state_dict(torch.load("model.pt"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = "taken"
best = None
for text in batches:
    x, y = text[:, :-1], text[:, 1:]
    logits, loss = model(x, targets=y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if best is None or len(history) > best:
        best = len(history)
        state = model.state_dict()
print(model.generate(batches[0]))
"""
SOURCES = {
    "perceptron": PLAIN,
    "criterion": CRITERION,
    "convolutions": CONVOLUTIONS,
    "transformer": TRANSFORMER,
    "own loss": OWN_LOSS,
}


def run(text):
    """The names that a script binds, in double precision."""
    before, space = torch.get_default_dtype(), {"__name__": "train"}
    torch.set_default_dtype(torch.float64)
    try:
        exec(compile(text, SCRIPT, "exec", dont_inherit=True), space)
    finally:
        torch.set_default_dtype(before)
    return space


def alone(source, job):
    """The script by itself, whose model is made with another seed; that of run 0 is the script's own."""
    if not job:
        return run(source)
    made = re.compile(r"^( *)(?=(?:model = (?!main|net)|net: nn.Module = ))", re.MULTILINE)
    return run(made.sub(lambda found: f"{found[1]}torch.manual_seed({7 + job})\n{found[1]}", source))


@pytest.mark.parametrize("name", SOURCES)
def test_each_run_trains_as_it_does_alone(workshop, name):
    source = SOURCES[name]
    text = workshop(source).edited(f"fuse_jobs={JOBS}")
    losses = "run_losses" if name == "own loss" else "losses"
    together = run(text.replace("history.append(loss.item())", f"history.append({losses}.tolist())"))
    models = together["model"].fused_jobs.models
    assert len(models) == JOBS
    for job, model in enumerate(models):
        apart = alone(source, job)
        assert [one[job] for one in together["history"]] == pytest.approx(apart["history"], rel=1e-12)
        state, expected = model.state_dict(), apart["model"].state_dict()
        assert state.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(state[key], value, rtol=1e-7, atol=1e-8, msg=key)
    assert len(set(together["history"][0])) == JOBS, "the runs have different weights"


@pytest.mark.parametrize("name", SOURCES)
def test_what_the_script_shows_is_run_0(workshop, name):
    """The unchanged lines that record the loss and evaluate give what they gave before."""
    before = run(SOURCES[name])
    after = run(workshop(SOURCES[name]).edited("fuse_jobs=2"))
    assert after["history"] == pytest.approx(before["history"], rel=1e-12)
    if "shown" in before:
        assert after["shown"] == pytest.approx(before["shown"], rel=1e-9)


def test_the_random_numbers_of_the_script_are_not_used_up(workshop):
    source = PLAIN.replace("in batches:", "in batches:\n    inputs = inputs + torch.randn(16, 4)")
    assert run(workshop(source).edited("fuse_jobs=4"))["history"] == pytest.approx(run(source)["history"])


def test_dropout_differs_between_runs_and_follows_the_mode(workshop):
    source = PLAIN.replace("nn.ReLU(inplace=True)", "nn.Dropout(0.5)")
    made = run(workshop(source).edited("fuse_jobs=2"))
    runs, ones = made["model"].fused_jobs, torch.ones(5, 4, dtype=torch.float64)
    for one in runs.weights.values():
        one.data[1] = one.data[0]
    first, second = runs.losses(lambda model: model(ones))
    assert not torch.equal(first, second)
    made["model"].eval()
    first, second = runs.losses(lambda model: model(ones))
    torch.testing.assert_close(first, second)


def test_clipping_is_that_of_each_run(workshop):
    """Gradients of one run are clipped by the same factor whatever those of the others are."""
    runs = run(workshop(CRITERION).edited("fuse_jobs=2"))["model"].fused_jobs
    for one in runs.parameters():
        one.grad = torch.randn_like(one)
        one.grad[1] *= 1e-4
    expected = []
    for job in range(2):
        copies = [one.grad[job].clone().requires_grad_() for one in runs.parameters()]
        for copy, one in zip(copies, runs.parameters(), strict=True):
            copy.grad = one.grad[job].clone()
        torch.nn.utils.clip_grad_norm_(copies, 0.1)
        expected.append([copy.grad for copy in copies])
    runs.clip_grad_norm_(0.1)
    for job in range(2):
        for one, grad in zip(runs.parameters(), expected[job], strict=True):
            torch.testing.assert_close(one.grad[job], grad)


def test_the_written_lines(workshop):
    lines = workshop(OWN_LOSS).edited("fuse_jobs=2").splitlines()
    wanted = """\
    if kind == "gpt":
        model = GPT(8)
        make_model = lambda: GPT(8)
    elif kind == "deep":
        model = nn.Sequential(GPT(8), GPT(8))
        make_model = lambda: nn.Sequential(GPT(8), GPT(8))
    model.fused_jobs = FusedJobs(model, lambda: make_model().to("cpu"), 2)
    optimizer = torch.optim.AdamW(model.fused_jobs.parameters(), lr=1e-2)
        def loss_of(model):
            logits, loss = model(x, targets=y)
            return loss
        run_losses = model.fused_jobs.losses(loss_of)
        loss = run_losses[0].detach()
        model.fused_jobs.zero_grad()
        run_losses.sum().backward()
    """
    for line in textwrap.dedent(wanted).splitlines():
        assert line in lines
    criterion = workshop(CRITERION).edited("fuse_jobs=2")
    assert "    losses, outputs = model.fused_jobs.losses(loss_of)\n" in criterion
    assert "    loss, outputs = losses[0].detach(), outputs[0].detach()\n" in criterion
    assert "    model.fused_jobs.clip_grad_norm_(0.1)\n" in criterion


def test_another_number_is_set_and_the_same_changes_nothing(workshop):
    shop = workshop(PLAIN)
    made = shop.after(shop.plan("fuse_jobs=2"))
    assert made.plan("fuse_jobs=2").edits == ()
    assert made.after(made.plan("fuse_jobs=8")).files == shop.after(shop.plan("fuse_jobs=8")).files


def test_the_notes_say_what_changes(workshop):
    said = " ".join(workshop(OWN_LOSS).plan("fuse_jobs=4").notes)
    for part in (
        "4 runs",
        "rounding",
        "dropout",
        "run 0",
        "model.fused_jobs.models",
        "run_losses",
        "loads saved",
    ):
        assert part in said


def test_models_that_share_a_part_do_not_start(workshop):
    source = PLAIN.replace(
        "model = nn.Sequential(", "part = nn.ReLU(), nn.Linear(8, 8)\nmodel = nn.Sequential(*part, "
    )
    text = workshop(source).edited("fuse_jobs=3")
    with pytest.raises(ValueError, match="share a parameter"):
        run(text)


def by_hand(workshop, source, value="3@own"):
    return workshop(source).plan(f"fuse_jobs={value}").refused[0].snippet


def test_the_lines_to_write_are_the_scripts_own(workshop):
    written = by_hand(workshop, CRITERION.replace("model.to(device)\n", "").replace("params=", ""))
    for line in (
        "models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(3)]",
        "optimizer = torch.optim.SGD(weights.values(), lr=0.1, momentum=0.9)",
        "def loss_of(weights, buffers, inputs, targets):",
        "    outputs = torch.func.functional_call(models[0], (weights, buffers), (inputs,))",
        "    loss = criterion(outputs, targets)",
        "    return loss",
    ):
        assert any(one.startswith(line) for one in written.splitlines()), written
    assert "(0, 0, None, None)" in written


@pytest.mark.parametrize("source", [PLAIN, PLAIN.replace("F.cross_entropy(", "nn.CrossEntropyLoss()(")])
def test_they_train_each_run_as_it_trains_alone(workshop, source):
    """Both as the lines say it, and the runs one after the other, from the same weights on the same batches."""
    head, _, _ = source.partition("for inputs")
    setup, _, step = by_hand(workshop, source).partition("# in the loop")
    space: dict[str, object] = {}
    exec(head + setup, space)
    apart = []
    for model in space["models"]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for inputs, targets in space["batches"]:
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            apart.append(loss.item())
    together = []
    for inputs, targets in list(space["batches"]):
        space.update(inputs=inputs, targets=targets)
        space["optimizer"].zero_grad()
        exec(step.partition("\n")[2], space)
        space["optimizer"].step()
        together.append(space["each_loss"].tolist())
    assert [one for runs in zip(*together, strict=True) for one in runs] == pytest.approx(apart, rel=1e-4)


def test_what_cannot_be_read_gets_the_usual_lines(workshop):
    written = by_hand(workshop, "import framework\nframework.train()\n", "3")
    assert "models = [Model() for _ in range(3)]" in written
    assert "no number" not in written
