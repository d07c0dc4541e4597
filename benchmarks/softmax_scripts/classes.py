"""A classifier of very many classes, whose labels follow Zipf's law or are evenly spread. It does not know Skyline."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--classes", type=int, default=100_000)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--labels", choices=("zipf", "even"), default="zipf")
parser.add_argument("--optimizer", choices=("SGD", "Adam"), default="SGD")
args = parser.parse_args()

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(128, width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x))


exponent = 1.0 if args.labels == "zipf" else 0.0
weights = torch.arange(1, args.classes + 1, dtype=torch.float64) ** -exponent
labels = torch.multinomial(weights, 20_000, replacement=True)
loader = DataLoader(TensorDataset(torch.randn(20_000, 128), labels), batch_size=args.batch, shuffle=True)
model = Net(args.width, args.classes)
optimizer = getattr(torch.optim, args.optimizer)(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for _epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
