"""A model in two stages, each on a device of its own; prints the time of its steps when it is run to the end."""

import sys
import time

import torch
from torch import nn

batch_size = 32
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
first = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to("cuda:0")
second = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to("cuda:1")
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)


def synchronize():
    for index in range(2):
        torch.cuda.synchronize(index)


for step in range(steps):
    if step == 5:
        synchronize()
        began = time.perf_counter()
    x = torch.randn(batch_size, 64, device="cuda:0")
    loss = second(first(x).to("cuda:1")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
synchronize()
print("ms a step:", (time.perf_counter() - began) * 1e3 / (steps - 5))
print("peak:", sum(torch.cuda.max_memory_allocated(index) for index in range(2)))
