"""Eight small perceptrons over the same rows, whose outputs are joined."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def expert(width=128):
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 16)
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(32, 64)
        self.experts = nn.ModuleList(expert() for _ in range(8))
        self.head = nn.Linear(128, 2)

    def forward(self, x):
        x = self.stem(x)
        found = [one(x) for one in self.experts]
        return self.head(torch.cat(found, 1))


torch.manual_seed(0)
rows, labels = torch.randn(16384, 32), torch.randint(2, (16384,))
loader = DataLoader(TensorDataset(rows, labels), batch_size=128, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
