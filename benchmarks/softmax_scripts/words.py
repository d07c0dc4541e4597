"""An LSTM over words that follow Zipf's law; the model computes its loss. It does not know Skyline."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--words", type=int, default=33_000)
parser.add_argument("--width", type=int, default=200)
parser.add_argument("--batch", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens, targets):
        x, _ = self.rnn(self.table(tokens))
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, args.words), targets.reshape(-1))
        return logits, loss


weights = 1 / torch.arange(1, args.words + 1, dtype=torch.float64)
words = torch.multinomial(weights, 36 * 4000, replacement=True).view(4000, 36)
loader = DataLoader(TensorDataset(words), batch_size=args.batch, shuffle=True)
model = Net(args.words, args.width)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for _epoch in range(100):
    for (each,) in loader:
        optimizer.zero_grad()
        _, loss = model(each[:, :-1], each[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
