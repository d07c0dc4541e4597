"""Images and labels, in batches."""

import torch
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 24


def batches():
    data = TensorDataset(torch.randn(1536, 3, 16, 16), torch.randint(0, 10, (1536,)))
    return DataLoader(data, batch_size=BATCH_SIZE, shuffle=True)
