"""A perceptron with layer normalization on many rows of a made-up table."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        layers = [nn.Linear(32, width)]
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.features(x)
        return self.head(x)


torch.manual_seed(0)
rows, labels = torch.randn(65536, 32), torch.randint(2, (65536,))
loader = DataLoader(TensorDataset(rows, labels), batch_size=8192, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
