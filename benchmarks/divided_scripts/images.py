"""A small convolutional network with group normalization on made-up images."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.ReLU()]


class Net(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.features = nn.Sequential(
            *block(3, channels), *block(channels, channels), *block(channels, channels), nn.AvgPool2d(8)
        )
        self.head = nn.Linear(channels * 64, 10)

    def forward(self, x):
        x = self.features(x)
        return self.head(x.flatten(1))


torch.manual_seed(0)
images, labels = torch.randn(512, 3, 64, 64), torch.randint(10, (512,))
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
