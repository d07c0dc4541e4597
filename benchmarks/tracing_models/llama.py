"""A model like Llama with 6.7 billion weights, batch 1 of 2,048 tokens, AdamW, all in bfloat16."""

import sys

import torch
from torch import nn


def rotated(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, width = x.shape
        normed = self.norm1(x)
        q, k, v = (
            one(normed).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for one in (self.q, self.k, self.v)
        )
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        normed = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self, layers, vocabulary=32000, heads=32, width=4096, hidden=11008):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.size = width // heads

    def forward(self, tokens):
        x = self.tokens(tokens)
        place = torch.arange(tokens.shape[1], device=tokens.device).float()
        rate = 1e-4 ** (torch.arange(0, self.size, 2, device=tokens.device) / self.size)
        angle = torch.outer(place, rate).repeat(1, 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


layers = int(sys.argv[1]) if len(sys.argv) > 1 else 32
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = Llama(layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
tokens = torch.zeros(1, 2049, dtype=torch.long, device="cuda")
for _ in range(100):
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
