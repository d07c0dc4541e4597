"""A recommendation model: embedding bags and two perceptrons; SGD with momentum."""

import torch
from torch import nn

tables, rows, width, batch_size = 8, 20_000, 32, 256


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 512), nn.ReLU(), nn.Linear(512, 1), nn.Sigmoid())

    def forward(self, dense, ids, offsets):
        bottom = self.bottom(dense)
        found = [bag(ids[number], offsets) for number, bag in enumerate(self.bags)]
        stacked = torch.stack([bottom, *found], dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        row, column = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        return self.top(torch.cat([products[:, row, column], bottom], dim=1)).squeeze(1)


model = Recommender()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.BCELoss()
for step in range(10_000):
    dense = torch.rand(batch_size, 13)
    ids = torch.randint(0, rows, (tables, batch_size * 4))
    offsets = torch.arange(0, batch_size * 4, 4)
    loss = criterion(model(dense, ids, offsets), torch.randint(0, 2, (batch_size,)).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
