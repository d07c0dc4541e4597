"""A regression whose batch size lies in a file of settings, over the default of a dataclass."""

from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Train:
    batch_size: int = 8
    lr: float = 0.01


def main():
    settings = yaml.safe_load(Path(__file__).with_name("config.yaml").read_text())
    train = Train(**settings["train"])
    width = settings["model"]["width"]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(2048, 128), torch.randn(2048, 1))
    loader = DataLoader(data, batch_size=train.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=train.lr)
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
