"""One step that is bound by what its first argument names: the host, the device, or the loader."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

bound_by = sys.argv[1]
batch_size = 16


class Samples(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if bound_by == "loader":
            time.sleep(0.001)
        return torch.full((64,), index % 7 / 7), torch.ones(1)


layers = 12 if bound_by == "host" else 3
model = nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(64, 64), nn.Tanh())], nn.Linear(64, 1))
model = model.to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Samples(), batch_size, pin_memory=True)
for x, y in loader:
    x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
