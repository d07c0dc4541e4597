"""A model that takes more than half of a small card, on the device that the first argument names."""

import sys

import torch
from torch import nn

device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
batch_size = 16
table = torch.zeros(140 << 20, dtype=torch.uint8, device=device)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    loss = model(torch.randn(batch_size, 64, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
