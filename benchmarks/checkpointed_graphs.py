"""Parts of a model that PyTorch compiles if blocks are checkpointed: the products in its graphs, out of all products.

    python benchmarks/checkpointed_graphs.py

Two blocks of one product each are called in a loop, or one after another, between two layers of the model. The second
block may contain code that a graph cannot contain: a branch on a tensor, a number that is read, or a recurrent layer.
PyTorch does not break a graph for these inside a checkpoint. Nothing is timed, so other work on the machine has no
effect.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product

import torch
from result_file import table
from rows_command import run
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

_WIDTH, _OUTER = 8, 16
_BREAKS = ("nothing", "a branch", "a number read", "a recurrent layer")


class Block(nn.Module):
    """A product after code that may break the graph."""

    ready: Tensor

    def __init__(self, breaks: str) -> None:
        super().__init__()
        self.breaks = breaks
        self.product = nn.Linear(_WIDTH, _WIDTH)
        self.recurrent = nn.GRU(_WIDTH, _WIDTH)
        self.register_buffer("ready", torch.ones(1))

    def forward(self, given: Tensor) -> Tensor:
        """The same result whatever breaks the graph."""
        if self.breaks == "a branch" and not self.ready:
            given = given * 2
        if self.breaks == "a number read":
            given = given * self.ready.item()
        if self.breaks == "a recurrent layer":
            given = self.recurrent(given)[0]
        return self.product(given)


class Body(nn.Module):
    """Calls its blocks, checkpointed or not."""

    def __init__(self, breaks: str, *, checkpointed: bool, looped: bool) -> None:
        super().__init__()
        self.checkpointed, self.looped = checkpointed, looped
        self.blocks = nn.ModuleList([Block("nothing"), Block(breaks)])

    def forward(self, given: Tensor) -> Tensor:
        """All blocks."""
        if self.looped:
            # The calls are in the loop itself, because a separate function would be compiled on its own.
            for block in self.blocks:
                given = checkpoint(block, given, use_reentrant=False) if self.checkpointed else block(given)
            return given
        first, second = self.blocks
        if self.checkpointed:
            given = checkpoint(first, given, use_reentrant=False)
            return checkpoint(second, given, use_reentrant=False)
        return second(first(given))


class Model(nn.Module):
    """Blocks between two layers."""

    def __init__(self, breaks: str, *, checkpointed: bool, looped: bool) -> None:
        super().__init__()
        self.first = nn.Linear(_OUTER, _WIDTH)
        self.body = Body(breaks, checkpointed=checkpointed, looped=looped)
        self.last = nn.Linear(_WIDTH, _OUTER)

    def forward(self, given: Tensor) -> Tensor:
        """Forward pass."""
        return self.last(self.body(self.first(given)))


@dataclass(frozen=True, slots=True)
class Row:
    """Number of products of the blocks and of the layers around them that became part of graphs."""

    breaks: str
    looped: bool
    checkpointed: bool
    in_blocks: int
    around: int


def measured(breaks: str, looped: bool, checkpointed: bool) -> Row:
    """The row of one model, from the graphs that PyTorch's compiler passes to its backend."""
    torch.compiler.reset()
    weights: list[tuple[int, ...]] = []

    def taken(graph: fx.GraphModule, _: list[Tensor]) -> fx.GraphModule:
        for part in graph.modules():
            if isinstance(part, fx.GraphModule):
                called = [node for node in part.graph.nodes if node.op == "call_function"]
                products = [node.args[1] for node in called if "linear" in str(node.target)]
                weights.extend(tuple(one.meta["example_value"].shape) for one in products)
        return graph

    model = Model(breaks, checkpointed=checkpointed, looped=looped)
    torch.compile(model, backend=taken)(torch.randn(2, _OUTER)).sum().backward()
    around = sum(shape != (_WIDTH, _WIDTH) for shape in weights)
    return Row(breaks, looped, checkpointed, len(weights) - around, around)


def all_models(_: int) -> list[Row]:
    """The rows of every kind of block, in a loop and outside, with checkpoints and without."""
    return [measured(*case) for case in product(_BREAKS, (True, False), (False, True))]


def page(rows: list[Row]) -> str:
    """The rows."""
    head = [
        "the second block contains",
        "in a loop",
        "checkpointed",
        "compiled of 2 blocks",
        "of 2 layers around",
    ]
    lines = [
        [
            row.breaks,
            "yes" if row.looped else "no",
            "yes" if row.checkpointed else "no",
            str(row.in_blocks),
            str(row.around),
        ]
        for row in rows
    ]
    return table(head, lines)


def main() -> int:
    """Measure and write the page."""
    return run("checkpointed_graphs", "Graphs of checkpointed blocks", __doc__, all_models, page, rounds=1)


if __name__ == "__main__":
    sys.exit(main())
