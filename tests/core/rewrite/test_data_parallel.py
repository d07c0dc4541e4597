"""A script of one process becomes one that torchrun starts, and is refused where its replicas would drift apart."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

data = [(torch.full((3,), i / 10), torch.tensor([float(i % 3)])) for i in range(32)]
torch.manual_seed(1)
"""
BODY = """\
model = nn.Linear(3, 1)
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
torch.save(model.state_dict(), "model.pt")
"""
START = """\
if "RANK" not in os.environ:  # started without torchrun: a job of one process
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
atexit.register(torch.distributed.destroy_process_group)
if torch.cuda.is_available():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
if torch.distributed.get_rank() > 0:  # the first rank alone reports
    sys.stdout = open(os.devnull, "w")
"""
AFTER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
import atexit
import os
import sys
{start}
data = [(torch.full((3,), i / 10), torch.tensor([float(i % 3)])) for i in range(32)]
torch.manual_seed(1)
model = nn.Linear(3, 1)
model = DistributedDataParallel(model)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    loader.sampler.set_epoch(loader.sampler.epoch + 1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
if torch.distributed.get_rank() == 0:
    torch.save(model.module.state_dict(), "model.pt")
"""


def test_a_whole_script(workshop) -> None:
    shop = workshop(HEAD + BODY)
    changed = shop.edited("data_parallel=2")
    assert sorted(changed.splitlines()) == sorted(AFTER.format(start=START).splitlines())
    again = replace(shop, files={"/project/train.py": changed})
    assert again.plan("data_parallel=2").edits == ()
    assert again.plan("data_parallel=2").notes == ("start it with: torchrun --nproc-per-node 2 train.py",)


def test_what_to_know_is_said(workshop) -> None:
    first, second = workshop(HEAD + BODY).plan("data_parallel=4").notes[:2]
    assert "torchrun --nproc-per-node 4 train.py" in first
    assert "each rank takes" in second


PARTS = [
    ("shuffle=True", "shuffle=False", "sampler=DistributedSampler(data, shuffle=False))"),
    (", shuffle=True", "", "batch_size=4, sampler=DistributedSampler(data, shuffle=False))"),
    ("for x, y in loader:", "for x, y in tqdm(enumerate(loader)):", "loader.sampler.set_epoch"),
    ("model = nn.Linear(3, 1)\n", "model = nn.Linear(3, 1).to('cuda:0')\n", "nn.Linear(3, 1).to('cuda')\n"),
    ("import torch\n", "import torch\nimport wandb\n", '\n    os.environ["WANDB_MODE"] = "disabled"\n'),
    ("import torch\n", "import logging\nimport torch\n", '"w")\n    logging.disable()\n'),
    ("print(loss.item())", "print(model.weight.norm())", "print(model.module.weight.norm())"),
    ("print(loss.item())", "print(model.training)", "print(model.training)"),
    (
        'torch.save(model.state_dict(), "model.pt")\n',
        'with open("out.txt", "w") as file:\n    file.write("done")\n',
        'if torch.distributed.get_rank() == 0:\n    with open("out.txt", "w") as file:\n        file.write("done")\n',
    ),
    ('torch.save(model.state_dict(), "model.pt")\n', "summary(model)\n", "\nsummary(model.module)\n"),
    (
        'torch.save(model.state_dict(), "model.pt")\n',
        'import os\nos.makedirs("out")\ntorch.save(model, "out/m.pt")\nmodel = torch.load("out/m.pt")\n',
        (
            'if torch.distributed.get_rank() == 0:\n    os.makedirs("out")\n    torch.save(model.module, "out/m.pt")\n'
            'torch.distributed.barrier()\nmodel = torch.load("out/m.pt")\n'
        ),
    ),
    (
        "model = nn.Linear(3, 1)\n",
        "def count(net):\n    return sum(p.numel() for n, p in net.named_parameters())\nmodel = nn.Linear(3, 1)\n",
        "net.named_parameters",
    ),
    (
        "torch.manual_seed(1)\n",
        "data = MNIST(root, download=True)\n",
        (
            "if torch.distributed.get_rank() > 0:  # the first rank downloads first\n    torch.distributed.barrier()\n"
            "data = MNIST(root, download=True)\n"
            "if torch.distributed.get_rank() == 0:\n    torch.distributed.barrier()\n"
        ),
    ),
]


@pytest.mark.parametrize(("old", "new", "written"), PARTS)
def test_parts(workshop, old: str, new: str, written: str) -> None:
    source = HEAD + BODY
    assert old in source
    assert written in workshop(source.replace(old, new)).edited("data_parallel=2")


IN_FUNCTIONS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

def evaluate(net, loader):
    with torch.no_grad():
        return sum(net.predict(x).sum() for x, y in loader)

class Trainer:
    def __init__(self, net, loader):
        self.net = net
        self.loader = loader
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self):
        for x, y in self.loader:
            loss = (self.net(x) - y).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        print(evaluate(self.net, self.loader))

def main():
    model = Net()
    loader = DataLoader(data, batch_size=4, shuffle=True)
    Trainer(model, loader).fit()
    torch.save(model.state_dict(), "model.pt")

if __name__ == "__main__":
    main()
"""


def test_followed_through_functions_and_classes(workshop) -> None:
    changed = workshop(IN_FUNCTIONS).edited("data_parallel=2")
    assert "return sum(net.module.predict(x).sum()" in changed
    assert "    self.loader.sampler.set_epoch(self.loader.sampler.epoch + 1)\n        for" in changed
    assert "        self.net = net\n        self.net = DistributedDataParallel(self.net)\n" in changed
    assert "    if torch.distributed.get_rank() == 0:\n        torch.save(model.state_dict()" in changed
    assert '    if "RANK" not in os.environ' in changed.partition("__main__")[2]


BY_CHANCE = """\
import torch
from torch import nn
data = torch.arange(100.0)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    at = torch.randint(len(data), (8,))
    loss = (model(data[at, None]) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_batches_that_are_drawn_by_chance(workshop) -> None:
    changed = workshop(BY_CHANCE)
    changed = replace(changed, profile=replace(changed.profile, loaders=())).edited("data_parallel=2")
    line = "torch.manual_seed(torch.initial_seed() + torch.distributed.get_rank())\n"
    assert f"model = DistributedDataParallel(model)\n{line}" in changed
    assert "DistributedSampler" not in changed


REFUSED = [
    ("shuffle=True", "sampler=mine", "`sampler` of its own"),
    ("shuffle=True", "shuffle=args.shuffle", "is computed when the script runs"),
    ("shuffle=True", "**more", "may set `shuffle`"),
    ("DataLoader(data,", "DataLoader(load(),", "not given a dataset by name"),
    ("for x, y in loader:", "for x, y in batches():", "does not go over the loader"),
    ("data = [", "class S(IterableDataset): pass\ndata = S()\n_ = [", "is a stream"),
    ("(model(x) - y)", "(model.features(x) - y)", "bypasses the model's own call"),
    ("(model(x) - y)", "(run(model, x) - y)", "hands the model to `run`"),
    ("        print(loss", "        if loss < 0.1:\n            break\n        print(loss", "of one rank"),
    ("        print(loss", "        loss.backward()\n        print(loss", "more than one `backward()`"),
    ("loss.backward()", "loss.backward(create_graph=True)", "Gradients of gradients"),
    ("optimizer.step()", "optimizer.step(closure)", "calls the loss by itself"),
    ("for epoch", "other = torch.optim.SGD(model.parameters(), lr=1)\nfor epoch", "More than one"),
    ("for epoch", "plan = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nfor epoch", "ReduceLROnPlateau"),
    ("for epoch", "model.to('cuda')\nfor epoch", "moves the model after its optimizer was made"),
    ("for epoch", "models = [model]\nfor epoch", "goes into"),
    ("for epoch", "model.weight.requires_grad = False\nfor epoch", "already registered"),
    ("nn.Linear(3, 1)", "nn.Linear(3, 1).to('cuda:1')", "device by number"),
    ("nn.Linear(3, 1)", "nn.Linear(3, 1).cuda(0)", "device by number"),
    ("nn.Linear(3, 1)", "nn.DataParallel(nn.Linear(3, 1))", "GPUs of one process"),
    ("torch.manual_seed(1)", "torch.distributed.init_process_group()", "makes a process group"),
    ("torch.manual_seed(1)", "log = open('log.txt', 'w')", "part of a larger statement"),
    ("torch.manual_seed(1)", "import mlflow", "use mlflow by itself"),
    ("torch.manual_seed(1)", "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'", "hides all GPUs"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_refused_with_the_reason_and_the_code(workshop, old: str, new: str, said: str) -> None:
    source = HEAD + BODY
    assert old in source
    shop = workshop(source.replace(old, new))
    assert said in shop.reason("data_parallel=2")
    assert "DistributedSampler" in shop.plan("data_parallel=2").refused[0].snippet


def test_refused_where_a_function_also_gets_another_model(workshop) -> None:
    source = IN_FUNCTIONS.replace("    Trainer(model", "    evaluate(Net(), loader)\n    Trainer(model")
    assert "which is not wrapped" in workshop(source).reason("data_parallel=2")


def test_refused_without_samples_to_share(workshop) -> None:
    shop = workshop(BY_CHANCE.replace("torch.randint(len(data), (8,))", "slice(8)"))
    shop = replace(shop, profile=replace(shop.profile, loaders=()))
    assert "There is no DataLoader" in shop.reason("data_parallel=2")


def test_refused_without_a_number_of_workers(workshop) -> None:
    assert "is not possible" in workshop(HEAD + BODY).reason("data_parallel=1")


RECORDED = "with open(f'losses{r}.txt', 'a') as file: file.write(f'{loss.item()!r}\\n')"


def losses(folder: Path, rank: int) -> list[float]:
    return [float(line) for line in (folder / f"losses{rank}.txt").read_text().splitlines()]


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_torchrun(rank: int, port: int) -> dict[str, str]:
    """The variables that torchrun gives one of two ranks."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", **place}


@pytest.mark.parametrize("torchrun", [False, pytest.param(True, marks=pytest.mark.long)])
def test_two_ranks_train_as_one_process_with_twice_the_batch(
    workshop, train_in_forks, tmp_path: Path, torchrun: bool
) -> None:
    plain = (HEAD + BODY).replace("shuffle=True", "shuffle=False")
    changed = workshop(plain).edited("data_parallel=2")
    folders = {name: tmp_path / name for name in ("ranks", "alone", "joined")}
    scripts = {
        "ranks": (changed, "torch.distributed.get_rank()"),
        "alone": (changed, "torch.distributed.get_rank()"),
        "joined": (plain.replace("batch_size=4", "batch_size=8"), "0"),
    }
    for name, (text, rank) in scripts.items():
        folders[name].mkdir()
        recorded = RECORDED.replace("{r}", "{" + rank + "}")
        script = folders[name] / "train.py"
        script.write_text(text.replace("print(loss.item())", f"print(loss.item())\n        {recorded}"))
    outputs = [tmp_path / f"printed{number}" for number in range(4)]
    jobs: list[tuple[Path, Path, dict[str, str]]] = [
        (folders["alone"], outputs[2], {}),
        (folders["joined"], outputs[3], {}),
    ]
    if torchrun:
        words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py")
        printed = run(folders["ranks"], *words).split()
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        jobs += [(folders["ranks"], outputs[rank], as_torchrun(rank, port)) for rank in range(2)]
    train_in_forks(jobs)
    if not torchrun:
        printed = "".join(output.read_text() for output in outputs[:2]).split()
    mean = [
        (a + b) / 2 for a, b in zip(losses(folders["ranks"], 0), losses(folders["ranks"], 1), strict=True)
    ]
    joined = losses(folders["joined"], 0)
    assert mean == pytest.approx(joined, rel=1e-5)
    assert json.loads(printed[0]) == losses(folders["ranks"], 0)[0]
    assert len(printed) == len(joined) == 8
    assert len(losses(folders["alone"], 0)) == 16
    import torch

    states = [torch.load(folder / "model.pt") for folder in folders.values()]
    assert states[0].keys() == states[2].keys()
    assert torch.allclose(states[0]["weight"], states[2]["weight"])
