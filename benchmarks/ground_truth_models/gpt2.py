"""A decoder of GPT-2's size that learns to continue random tokens."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

LAYERS, WIDTH, HEADS, LENGTH, WORDS = (2, 64, 4, 64, 512) if args.small else (12, 768, 12, 1024, 50257)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        q, k, v = (one.view(b, t, HEADS, c // HEADS).transpose(1, 2) for one in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


device = "cuda" if torch.cuda.is_available() else "cpu"
text = torch.randint(WORDS, (1_000_000,))
model = Decoder().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)


def get_batch(batch_size):
    starts = torch.randint(len(text) - LENGTH - 1, (batch_size,))
    x = torch.stack([text[start : start + LENGTH] for start in starts])
    y = torch.stack([text[start + 1 : start + 1 + LENGTH] for start in starts])
    return x.to(device), y.to(device)


for step in range(1_000_000):
    x, y = get_batch(args.batch_size)
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, WORDS), y.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
