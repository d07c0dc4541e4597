"""A regression whose batch size lies deep in a JSON file of settings."""

import json
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    settings = json.loads(Path(__file__).with_name("config.json").read_text())
    train = settings["train"]
    width = settings["model"]["width"]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(2048, 128), torch.randn(2048, 1))
    loader = DataLoader(data, batch_size=train["loader"]["batch_size"], shuffle=True)
    model = nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=train["lr"])
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
