"""A language model of two LSTM layers, of the size that Zaremba and others trained on Penn Treebank (2014)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

WIDTH, LENGTH, WORDS = (64, 16, 500) if args.small else (1500, 35, 10_000)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        states, _ = self.lstm(self.words(tokens))
        return self.head(states)


device = "cuda" if torch.cuda.is_available() else "cpu"
texts = torch.randint(WORDS, (8192, LENGTH + 1))
loader = DataLoader(
    TensorDataset(texts[:, :-1].contiguous(), texts[:, 1:].contiguous()),
    batch_size=args.batch_size,
    shuffle=True,
    drop_last=True,
)
model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
criterion = nn.CrossEntropyLoss()

for epoch in range(1000):
    for tokens, targets in loader:
        tokens, targets = tokens.to(device), targets.to(device)
        loss = criterion(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
