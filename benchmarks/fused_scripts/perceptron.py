"""A small perceptron that learns the colours of a chess board."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Perceptron(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )

    def forward(self, points):
        return self.layers(points)


torch.manual_seed(0)
points = 8 * torch.rand(16384, 2)
colours = points.floor().sum(1).long() % 2
loader = DataLoader(TensorDataset(points, colours), batch_size=64, shuffle=True, drop_last=True)
model = Perceptron()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
