"""GPT-2 with 124 million weights, batch 12 of 1,024 tokens, AdamW, bfloat16 autocast."""

import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.inputs(self.norm1(x)).split(width, dim=2)
        q, k, v = (one.view(batch, tokens, self.heads, -1).transpose(1, 2) for one in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.output(y.transpose(1, 2).reshape(batch, tokens, width)))
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh")))


class Gpt2(nn.Module):
    def __init__(self, vocabulary=50257, positions=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


batch_size = 12
layers = int(sys.argv[1]) if len(sys.argv) > 1 else 12
model = Gpt2(layers=layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
tokens = torch.zeros(batch_size, 1025, dtype=torch.long, device="cuda")
for _ in range(100):
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
