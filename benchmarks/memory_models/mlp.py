"""A multilayer perceptron on rows of numbers; Adam."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

batch_size = 512
data = TensorDataset(torch.randn(20_000, 256), torch.randint(0, 10, (20_000,)))
loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)
model = nn.Sequential(
    nn.Linear(256, 1024), nn.ReLU(), nn.Dropout(0.2), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(100):
    for rows, labels in loader:
        loss = nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
