"""A regression whose batch size is computed: no number in the code holds it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 2048
STEPS_AN_EPOCH = 64


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(SAMPLES, 128), torch.randn(SAMPLES, 1))
    loader = DataLoader(data, batch_size=SAMPLES // STEPS_AN_EPOCH, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
