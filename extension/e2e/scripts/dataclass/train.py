"""A regression whose settings are a dataclass: the default of a field is overridden where the settings are made."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    batch_size: int = 8
    width: int = 512
    lr: float = 0.01


class Regression(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(self.layers(x))


def main():
    settings = Settings(batch_size=16)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(2048, 128), torch.randn(2048, 1))
    loader = DataLoader(data, batch_size=settings.batch_size, shuffle=True)
    model = Regression(settings.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
