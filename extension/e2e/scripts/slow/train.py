"""A network whose items are slow to read and whose step waits: its times are those of its sleeps."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

READ_S = 0.002
STEP_S = 0.03


class Items(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(READ_S)
        return torch.full((16,), float(index % 7)), torch.zeros(4)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Items(), batch_size=16)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for epoch in range(50):
        for x, y in loader:
            time.sleep(STEP_S)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
