"""Batches copied ahead on a stream of their own, from pinned memory."""

import torch
from torch import nn

batch_size = 32


class Prefetcher:
    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        x = torch.randn(batch_size, 3, 16, 16).pin_memory()
        y = torch.randint(10, (batch_size,)).pin_memory()
        with torch.cuda.stream(self.stream):
            self.x = x.to(self.device, non_blocking=True).mul_(0.5)
            self.y = y.to(self.device, non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        x, y = self.x, self.y
        x.record_stream(torch.cuda.current_stream())
        self.preload()
        return x, y


device = torch.device("cuda")
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
prefetcher = Prefetcher(device)
for step in range(1_000_000):
    x, y = prefetcher.next()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
