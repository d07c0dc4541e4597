"""A recommender after DLRM (Naumov and others, 2019) whose categories are as popular as Zipf's law says."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--exponent", type=float, default=1.05)
parser.add_argument("--batch-size", type=int, default=1024)
args = parser.parse_args()

TABLES, ROWS, WIDTH, DENSE, COUNT = 8, 50_000, 32, 13, 200_000


def tower(*sizes):
    layers = []
    for inside, outside in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ROWS, WIDTH) for _ in range(TABLES)])
        self.bottom = tower(DENSE, 128, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = tower(WIDTH + pairs, 128, 64)
        self.out = nn.Linear(64, 1)
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, -1), persistent=False)

    def forward(self, dense, categories):
        x = self.bottom(dense)
        parts = [x, *(table(categories[:, place]) for place, table in enumerate(self.tables))]
        stacked = torch.stack(parts, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.out(self.top(torch.cat([x, crossed], dim=1))).squeeze(1)


torch.manual_seed(0)
chance = torch.arange(1, ROWS + 1, dtype=torch.double) ** -args.exponent
ranks = torch.multinomial(chance, COUNT * TABLES, replacement=True)
# Popular categories lie anywhere in their table.
categories = torch.stack([torch.randperm(ROWS)[part] for part in ranks.chunk(TABLES)], dim=1)
device = "cuda" if torch.cuda.is_available() else "cpu"
clicks = TensorDataset(torch.randn(COUNT, DENSE), categories, torch.randint(2, (COUNT,)).float())
loader = DataLoader(clicks, batch_size=args.batch_size, shuffle=True, drop_last=True)
model = Recommender().to(device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(1000):
    for dense, categories, labels in loader:
        dense, categories, labels = dense.to(device), categories.to(device), labels.to(device)
        loss = criterion(model(dense, categories), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
