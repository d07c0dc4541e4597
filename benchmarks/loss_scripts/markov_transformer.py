"""A transformer of one layer that predicts the next symbol of a random second-order Markov chain, with AdamW."""

from __future__ import annotations

from functools import partial

import torch
from run_to_target import Task, main
from torch import Tensor, nn

_SYMBOLS, _LENGTH = 12, 16
_CHAIN = torch.softmax(
    2 * torch.randn(_SYMBOLS, _SYMBOLS, _SYMBOLS, generator=torch.Generator().manual_seed(7)), 2
)


def batch(count: int) -> tuple[Tensor, Tensor]:
    """Sequences, and the same moved on by one symbol."""
    symbols = [torch.randint(0, _SYMBOLS, (count,)) for _ in range(2)]
    for _ in range(_LENGTH - 1):
        symbols.append(torch.multinomial(_CHAIN[symbols[-2], symbols[-1]], 1).squeeze(1))
    text = torch.stack(symbols, 1)
    return text[:, :-1], text[:, 1:]


class Model(nn.Module):
    """Embeddings, one encoder layer with a causal mask, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(_SYMBOLS, 48)
        self.places = nn.Parameter(0.02 * torch.randn(_LENGTH, 48))
        self.layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(48, _SYMBOLS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(_LENGTH))

    def forward(self, text: Tensor) -> Tensor:
        """Scores of the next symbol, classes in the second dimension."""
        hidden = self.layer(
            self.symbols(text) + self.places[: text.shape[1]], src_mask=self.mask, is_causal=True
        )
        return self.head(hidden).transpose(1, 2)


TASK = Task(
    model=Model,
    batch=batch,
    loss=nn.functional.cross_entropy,
    optimizer=partial(torch.optim.AdamW, weight_decay=0.01),
    batch_size=64,
    lr=4e-3,
    lr_power=0.5,
    target=2.0,
)

if __name__ == "__main__":
    main(TASK)
