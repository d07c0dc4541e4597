"""Two convolutional towers of unequal kernels over the same images, joined before the last layer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tower(kernel, channels=16):
    half = kernel // 2
    return nn.Sequential(
        nn.Conv2d(channels, channels, kernel, padding=half),
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel, padding=half),
        nn.ReLU(),
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.fine = tower(3)
        self.coarse = tower(5)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        fine = self.fine(x)
        coarse = self.coarse(x)
        x = torch.cat([fine, coarse], 1)
        return self.head(x.mean((2, 3)))


torch.manual_seed(0)
images, labels = torch.randn(512, 3, 16, 16), torch.randint(10, (512,))
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
