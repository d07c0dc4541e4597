"""A script of one process becomes one of several that divide its parameters, and trains as before."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.cli.command_line import parse_question
from skyline.errors import UsageError
from skyline.trace.facts import ModuleFact
from skyline.whatif.question import Choice

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(4) > 0)

    def forward(self, x):
        return x + torch.tanh(self.inner(x)) * self.mask

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

data = [(torch.full((4,), i / 10), torch.tensor([float(i % 3)])) for i in range(32)]
torch.manual_seed(1)
"""
BODY = """\
model = Net()
loader = DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item())
torch.save(model.state_dict(), "model.pt")
"""
SHARDED = """\
model = Net()
for tensor in (*model.parameters(), *model.buffers()):  # all ranks start with the values of the first
    torch.distributed.broadcast(tensor.detach(), 0)
for each_block in model.blocks.children():
    fully_shard(each_block)
fully_shard(model)
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
"""
SAVED = """\
model_state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
if torch.distributed.get_rank() == 0:
    torch.save(model_state, "model.pt")
"""
NAMES = (
    "Net",
    "Net.blocks",
    *(f"Net.blocks.{n}{part}" for n in range(3) for part in ("", ".inner")),
    "Net.head",
)


@pytest.fixture
def script(workshop):
    def make(source: str, names: tuple[str, ...] = NAMES, **given):
        shop = workshop(source, **given)
        modules = tuple(
            ModuleFact(name, "Linear", True, 20, True, {}, 0.0 if name == "Net.blocks" else 1.0)
            for name in names
        )
        return replace(shop, profile=replace(shop.profile, modules=modules))

    return make


def test_a_whole_script(script) -> None:
    shop = script(HEAD + BODY)
    changed = shop.edited("fsdp=2")
    for part in (SHARDED, SAVED, "from torch.distributed.fsdp import fully_shard\n", "init_process_group("):
        assert part in changed
    assert "DistributedDataParallel" not in changed
    again = replace(shop, files={"/project/train.py": changed}).plan("fsdp=2")
    assert again.edits == ()
    assert again.notes == ("start it with: torchrun --nproc-per-node 2 train.py",)
    assert "torchrun --nproc-per-node 4 train.py" in shop.plan("fsdp=4").notes[0]


def test_without_repeated_blocks_the_whole_is_one_group(script) -> None:
    changed = script(HEAD + BODY, ("Net", "Net.head")).edited("fsdp=2")
    assert "children()" not in changed
    assert "\nfully_shard(model)\n" in changed


def test_blocks_that_the_model_does_not_call_are_no_groups(script) -> None:
    shop = script(HEAD + BODY)
    idle = tuple(replace(one, calls_per_iteration=0.0) for one in shop.profile.modules)
    assert "children()" not in replace(shop, profile=replace(shop.profile, modules=idle)).edited("fsdp=2")


SAVES = "            torch.save(model.state_dict(), 'm.pt')\n        print(loss"
PARTS = [
    ("model = Net()\n", "model = Net().to('cuda:0')\n", "model = Net().to('cuda')\nfor tensor in"),
    (
        'torch.save(model.state_dict(), "model.pt")\n',
        'state = {"model": model.state_dict()}\ntorch.save(state, "model.pt")\n',
        'state = {"model": get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, ',
    ),
    ("        print(loss", "        if epoch % 5 == 0:\n" + SAVES, "            model_state = get"),
    ("print(loss.item())", "print(model.training)", "print(model.training)"),
    ("model = Net()\n", "tensor = 1\nmodel = Net()\n", "for each_tensor in (*model"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "written"), PARTS)
def test_parts(script, old: str, new: str, written: str) -> None:
    assert old in HEAD + BODY
    assert written in script((HEAD + BODY).replace(old, new)).edited("fsdp=2")


REFUSED = [
    ("(model(x) - y)", "(model.forward(x) - y)", "the model's own call"),
    ("(model(x) - y)", "(model.head(x) - y)", "the model's own call"),
    ("print(loss.item())", "print(model.head.weight.norm())", "the model's own call"),
    ("(model(x) - y)", "(run(model, x) - y)", "gets the model"),
    ("torch.save(model.state_dict()", "torch.save(model", "gets the model"),
    ("torch.save(model.state_dict()", "torch.save(optimizer.state_dict()", "optimizer's state is in shards"),
    ("for epoch", "model.load_state_dict({})\nfor epoch", "the model's own call"),
    ("for epoch", "model = torch.compile(model)\nfor epoch", "compiled model"),
    ("for epoch", "scaler = torch.amp.GradScaler()\nfor epoch", "gradient scaler"),
    ("model = Net()", "model = Net().to(memory_format=torch.channels_last)", "channels_last"),
    ("        print(loss", "        if loss < best:\n" + SAVES, "may differ between ranks"),
    ("        print(loss", "        if self.best > 1:\n" + SAVES, "may differ between ranks"),
    ("for epoch", "model = DistributedDataParallel(model)\nfor epoch", "replicates its model"),
    ("torch.manual_seed(1)", "torch.distributed.init_process_group()", "makes a process group"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_refused_with_the_reason_and_the_code(script, old: str, new: str, said: str) -> None:
    assert old in HEAD + BODY
    shop = script((HEAD + BODY).replace(old, new))
    assert said in shop.reason("fsdp=2")
    assert "fully_shard(model)" in shop.plan("fsdp=2").refused[0].snippet


def test_a_state_that_one_rank_may_save_alone_is_found_through_functions(script) -> None:
    body = BODY.replace(
        "        print(loss", "        if loss < 1:\n            keep(model)\n        print(loss"
    )
    function = "def keep(net):\n    torch.save(net.state_dict(), 'm.pt')\n"
    assert "may differ between ranks" in script(HEAD + function + body).reason("fsdp=2")
    assert "net, options" in script(HEAD + function + body.replace("loss < 1", "epoch < 1")).edited("fsdp=2")


@pytest.mark.parametrize("value", ["1", "8@25", "", "many"])
def test_refused_without_a_number_of_ranks(script, value: str) -> None:
    assert "is not a number of ranks" in script(HEAD + BODY).reason(f"fsdp={value}")


def test_refused_for_an_older_pytorch(script) -> None:
    shop = script(HEAD + BODY)
    older = replace(shop.profile.environment, torch="2.5.1+cpu")
    assert "2.5 has no fully_shard" in replace(shop, profile=replace(shop.profile, environment=older)).reason(
        "fsdp=2"
    )


RECORDED = """\
held = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
        with open(f"losses{RANK}.txt", "a") as file:
            file.write(f"{loss.item()!r} {sum(p.numel() for p in held)}\\n")"""
IMPORTED = ("torch._dynamo.utils", "torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict")
RANK = 'os.environ.get("RANK", "0")'


def _script(folder: Path, text: str) -> Path:
    folder.mkdir()
    recorded = RECORDED.replace("{RANK}", f"{{{RANK}}}".replace('"', "'"))
    (folder / "train.py").write_text("import os\n" + text.replace("print(loss.item())", recorded))
    return folder


def _losses(folder: Path, rank: int = 0) -> list[tuple[float, int]]:
    lines = (folder / f"losses{rank}.txt").read_text().splitlines()
    return [(float(loss), int(held)) for loss, held in map(str.split, lines)]


@pytest.mark.capture
def test_two_ranks_train_as_one_process_with_twice_the_batch(script, train_in_forks, tmp_path: Path) -> None:
    plain = (HEAD + BODY).replace("shuffle=True", "shuffle=False")
    changed = script(plain).edited("fsdp=2")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    places = [
        {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in "01"
    ]
    together = _script(tmp_path / "ranks", changed)
    alone = _script(tmp_path / "alone", changed)
    twice = _script(tmp_path / "joined", plain.replace("batch_size=4", "batch_size=8"))
    printed = tmp_path / "printed"
    jobs = [*((together, printed, place) for place in places), (alone, printed, {}), (twice, printed, {})]
    train_in_forks(jobs, *IMPORTED)
    ranks = [_losses(tmp_path / "ranks", rank) for rank in range(2)]
    joined = _losses(tmp_path / "joined")
    mean = [(a + b) / 2 for (a, _), (b, _) in zip(*ranks, strict=True)]
    assert mean == pytest.approx([loss for loss, _ in joined], rel=1e-5)
    assert len(joined) == 8
    assert len(_losses(tmp_path / "alone")) == 16
    # Of each block 10 of 20 parameters; the head has one row, which is with the first rank.
    assert joined[0][1] == 65
    assert [one[0][1] for one in ranks] == [3 * 10 + 5, 3 * 10]
    import torch

    states = [torch.load(tmp_path / name / "model.pt") for name in ("ranks", "joined")]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[1].items():
        assert torch.allclose(states[0][name], tensor, atol=1e-5), name


def test_it_is_planned_and_not_asked_as_a_what_if() -> None:
    with pytest.raises(UsageError, match="no what-if fsdp: it needs several GPUs") as raised:
        parse_question(["fsdp=2"])
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("skyline plan")
    assert parse_question(["fsdp=2"], rewrites=True).choices == (Choice("fsdp", "2"),)
