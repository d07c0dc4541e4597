"""A loop that slows down for good once PyTorch's profiler has run, as with a recorder that stays attached."""

import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--uneven-ms", type=float, default=0.0)
args = parser.parse_args()

model = nn.Linear(64, 1).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
attached = False
for step in range(args.steps):
    attached = attached or torch._C._autograd._profiler_enabled()
    time.sleep(0.04 if attached else 0.005 + step % 3 * args.uneven_ms / 1e3)
    loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
