"""The embedding tables of the training model, with a number for every row of all of them."""

from __future__ import annotations

import torch

from ..module_facts import named_modules

_CLASSES = (torch.nn.Embedding, torch.nn.EmbeddingBag)
LEAST_BYTES = 1 << 20
"""Smaller tables fit into any cache."""


class Table:
    """A table; the numbers of its rows begin with ``first``. A weight that several modules share is one table.

    ``closed`` is true if the last offset of its bags is the end of the indices.
    """

    __slots__ = ("closed", "first", "padding", "path", "row_bytes", "rows", "weight")

    def __init__(self, path, module, first):
        self.path = path
        self.weight = module.weight
        self.padding = module.padding_idx
        self.closed = bool(getattr(module, "include_last_offset", False))
        self.rows = module.num_embeddings
        self.row_bytes = module.embedding_dim * module.weight.element_size()
        self.first = first

    @property
    def size_bytes(self):
        """Bytes of the whole table."""
        return self.rows * self.row_bytes


def trained_modules(optimizers):
    """Pairs of a path and a module whose weight one of the optimizers trains.

    Of modules of one class that share a weight there is the first.
    """
    trained = {
        id(parameter)
        for _, optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    found = {}
    for path, module in named_modules():
        weight = dict(module._parameters.items()).get("weight")
        if id(weight) in trained:
            found.setdefault((id(weight), type(module)), (path, module))
    return list(found.values())


def large_tables(modules):
    """The tables among the modules that are large enough, in their order."""
    found, first = [], 0
    for path, module in modules:
        if type(module) not in _CLASSES:
            continue
        if module.num_embeddings * module.embedding_dim * module.weight.element_size() < LEAST_BYTES:
            continue
        found.append(Table(path, module, first))
        first += module.num_embeddings
    return found
