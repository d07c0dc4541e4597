"""A second script beside the first one: its own headline, its own batch size."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)

data = TensorDataset(torch.randn(1024, 64), torch.randn(1024, 1))
loader = DataLoader(data, batch_size=16)
model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
