"""A recurrent language model of two LSTM layers; Adam, gradients clipped."""

import torch
from torch import nn

vocabulary, width, length, batch_size = 5000, 256, 35, 20


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.LSTM(width, width, num_layers=2, dropout=0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, state):
        out, state = self.layers(self.tokens(ids), state)
        return self.head(out), state


model = Recurrent()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
state = (torch.zeros(2, batch_size, width), torch.zeros(2, batch_size, width))
for step in range(10_000):
    ids = torch.randint(0, vocabulary, (length + 1, batch_size))
    state = tuple(part.detach() for part in state)
    logits, state = model(ids[:-1], state)
    loss = nn.functional.cross_entropy(logits.reshape(-1, vocabulary), ids[1:].reshape(-1))
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
