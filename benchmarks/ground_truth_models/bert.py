"""An encoder of BERT's size that guesses masked tokens, its attention written out by hand."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

LAYERS, WIDTH, HEADS, LENGTH, WORDS = (2, 64, 4, 48, 500) if args.small else (12, 768, 12, 384, 30522)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return x.view(x.size(0), x.size(1), HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
        weights = torch.softmax(scores, dim=-1)
        context = torch.matmul(weights, v).transpose(1, 2).contiguous()
        return self.out(context.view(x.size(0), x.size(1), WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 4 * WIDTH)
        self.outer = nn.Linear(4 * WIDTH, WIDTH)
        self.ln2 = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.outer(nn.functional.gelu(self.inner(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.ln = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.ln(self.words(tokens) + self.places)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


device = "cuda" if torch.cuda.is_available() else "cpu"
texts = torch.randint(WORDS, (4096, LENGTH))
loader = DataLoader(TensorDataset(texts, texts), batch_size=args.batch_size, shuffle=True, drop_last=True)
model = Encoder().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

for epoch in range(1000):
    for tokens, targets in loader:
        tokens, targets = tokens.to(device), targets.to(device)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
