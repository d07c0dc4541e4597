"""Short trainings for ``skyline watch``, by the problems that they show.

``test_runs.py`` runs them; ``benchmarks/watch_rules.py`` runs them with several seeds and counts.
"""

from __future__ import annotations

from dataclasses import dataclass

HEALTHY = """
import os, sys, time
import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(512, 8)
targets = (inputs.sum(1) > 0).long()
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(inputs, targets), batch_size=64, shuffle=True
)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
print("training", flush=True)
began, last = time.monotonic(), 0
for epoch in range(int(sys.argv[1])):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        time.sleep(0.005)
    model.eval()
    with torch.no_grad():
        validation = nn.functional.cross_entropy(model(inputs[:100]), targets[:100])
    model.train()
    with open(sys.argv[2], "a") as file:
        file.write(loss.item().hex() + " " + validation.item().hex() + "\\n")
print("done", "SKYLINE" in "".join(sys.argv), flush=True)
sys.exit(5)
"""
PROBLEMS = """
import io, sys, time
import torch
from torch import nn


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.randn(8), int(index % 40 == 0)


class Slowly(io.BytesIO):
    def write(self, data):
        time.sleep(0.003)
        return super().write(data)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 16)
        self.third = nn.Linear(16, 16)
        self.head = nn.Linear(16, 2)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.tanh(1e4 * self.first(x))
        x = nn.functional.relu(self.second(x) - 100)
        return self.head(torch.relu(self.third(x)))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(10):
    if epoch == 7:
        optimizer.param_groups[0]["lr"] = 1e-12
    for x, y in torch.utils.data.DataLoader(Slow(), batch_size=32):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(x), y) * (1e4 if epoch >= 7 else 1.0)
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), Slowly())
    with torch.no_grad():
        nn.MSELoss()(torch.tensor(1.0 + epoch), torch.tensor(0.0))
"""
DIVERGES = """
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for iteration in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean() * (float("nan") if iteration > 200 else 1.0)
    loss.backward()
    optimizer.step()
"""
CRASHES = """
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
loss.backward()
"""
SLOWS_DOWN = """
import sys, time
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for iteration in range(900):
    x = torch.randn(32, 8)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True) - 0.1 * torch.randn(32, 1)).pow(2).mean()
    loss.backward()
    optimizer.step()
    time.sleep(0.004 if iteration < 450 else float(sys.argv[1]))
"""
LEARNS = """
import sys, time
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
for iteration in range(1500):
    x = torch.randn(4096, 8)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    loss.backward()
    optimizer.step()
    time.sleep(0.002)
"""
KEEPS_GRAPHS = """
import sys, time
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
errors = []
ends = time.monotonic() + float(sys.argv[2])
while time.monotonic() < ends:
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
    error = (model(x) - y).abs().mean()
    errors.append(error if sys.argv[1] == "graph" else error.item())
    time.sleep(0.02)
"""
RANKS = """
import os, subprocess, sys, tempfile, time

if "RANK" not in os.environ:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, sys.argv[1], os.path.join(folder, "meeting")]
        ranks = [
            subprocess.Popen(command, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
            for rank in range(2)
        ]
        sys.exit(max(rank.wait() for rank in ranks))

import torch
from torch import distributed

rank = int(os.environ["RANK"])
torch.manual_seed(0)
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for iteration in range(300):
    x = torch.randn(32, 8)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True) - 0.1 * torch.randn(32, 1)).pow(2).mean()
    time.sleep(0.005 + rank * float(sys.argv[1]))
    loss.backward()
    for parameter in model.parameters():
        distributed.all_reduce(parameter.grad)
        parameter.grad /= 2
    optimizer.step()
distributed.destroy_process_group()
"""
_FOLLOWS_FROM_NAN = frozenset({"exploding_gradients"})


@dataclass(frozen=True)
class Training:
    """A script with its arguments, and the rules whose problem it ``shows``.

    ``follows`` are problems that the shown one may bring with it: they count neither as found nor as a false alarm.
    """

    text: str
    arguments: tuple[str, ...] = ()
    shows: frozenset[str] = frozenset()
    follows: frozenset[str] = frozenset()
    exit_code: int = 0

    def seeded(self, seed: int) -> str:
        """The script with another seed."""
        return self.text.replace("torch.manual_seed(0)", f"torch.manual_seed({seed})")


TRAININGS = {
    "healthy network": Training(HEALTHY, ("80", "losses"), exit_code=5),
    "network with nine problems": Training(
        PROBLEMS,
        shows=frozenset(
            {
                "checkpoint_stalls",
                "dead_units",
                "exploding_gradients",
                "loader_stalls",
                "overfitting",
                "saturated_activations",
                "unbalanced_classes",
                "vanishing_gradients",
                "weights_not_updating",
            }
        ),
    ),
    "loss that becomes NaN": Training(DIVERGES, ("3000",), frozenset({"loss_not_finite"}), _FOLLOWS_FROM_NAN),
    "iterations that slow down": Training(SLOWS_DOWN, ("0.012",), frozenset({"throughput_falls"})),
    "iterations of one length": Training(SLOWS_DOWN, ("0.004",)),
    "too small a learning rate": Training(LEARNS, ("1e-5",), frozenset({"loss_not_falling"})),
    "fitting learning rate": Training(LEARNS, ("0.1",)),
    "kept graphs": Training(KEEPS_GRAPHS, ("graph", "55"), frozenset({"memory_grows"})),
    "kept numbers": Training(KEEPS_GRAPHS, ("number", "55")),
    "slow rank": Training(RANKS, ("0.01",), frozenset({"straggler"})),
    "equal ranks": Training(RANKS, ("0",)),
}
