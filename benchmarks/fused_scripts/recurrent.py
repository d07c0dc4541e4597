"""A recurrent network of LSTM cells that continues sequences of letters."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LETTERS, WIDTH, LENGTH = 64, 128, 24


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.gates = nn.Linear(2 * WIDTH, 4 * WIDTH)
        self.head = nn.Linear(WIDTH, LETTERS)

    def forward(self, text):
        seen = self.letters(text)
        state = cell = torch.zeros(len(text), WIDTH)
        states = []
        for letter in seen.unbind(1):
            forget, keep, show, new = self.gates(torch.cat((letter, state), 1)).chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(keep) * torch.tanh(new)
            state = torch.sigmoid(show) * torch.tanh(cell)
            states.append(state)
        return self.head(torch.stack(states, 1))


torch.manual_seed(0)
texts = (
    torch.randint(LETTERS, (4096, 1)).add(torch.arange(LENGTH + 1) * torch.randint(1, 4, (4096, 1))) % LETTERS
)
loader = DataLoader(
    TensorDataset(texts[:, :-1].contiguous(), texts[:, 1:].contiguous()),
    batch_size=32,
    shuffle=True,
    drop_last=True,
)
model = Recurrent()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

for _ in range(1000):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
