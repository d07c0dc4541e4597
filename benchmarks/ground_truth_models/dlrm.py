"""A recommender after DLRM (Naumov and others, 2019): tables of categories, two towers, what they have in common."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=2048)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

TABLES, ROWS, WIDTH, DENSE = (4, 5_000, 16, 13) if args.small else (26, 200_000, 64, 13)


def tower(*sizes):
    layers = []
    for inside, outside in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inside, outside), nn.ReLU()]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(ROWS, WIDTH) for _ in range(TABLES)])
        self.bottom = tower(DENSE, 512, 256, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = tower(WIDTH + pairs, 512, 256)
        self.out = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, -1), persistent=False)

    def forward(self, dense, categories):
        x = self.bottom(dense)
        parts = [x, *(table(categories[:, place]) for place, table in enumerate(self.tables))]
        stacked = torch.stack(parts, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.out(self.top(torch.cat([x, crossed], dim=1))).squeeze(1)


device = "cuda" if torch.cuda.is_available() else "cpu"
COUNT = 100_000
clicks = TensorDataset(
    torch.randn(COUNT, DENSE), torch.randint(ROWS, (COUNT, TABLES)), torch.randint(2, (COUNT,)).float()
)
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
