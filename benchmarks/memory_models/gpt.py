"""A decoder with fused attention on random tokens; AdamW, gradients clipped."""

import torch
from torch import nn
from torch.nn import functional as F

vocabulary, width, heads, depth, context, batch_size = 4096, 256, 8, 4, 128, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        query, key, value = (
            part.view(batch, length, heads, width // heads).transpose(1, 2) for part in parts
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(10_000):
    ids = torch.randint(0, vocabulary, (batch_size, context + 1))
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
