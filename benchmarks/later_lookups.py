"""Run a script, and count which rows of its embeddings later iterations look up, and how much a step changes them.

    python benchmarks/later_lookups.py OUT FIRST COUNT STEPS MEGABYTES CHANGE SCRIPT [ARGUMENTS]

From iteration FIRST on, it counts COUNT iterations, and then ends the script. The hottest rows are chosen in every
other iteration, and their share is counted in the remaining ones; then the other way round. Rows that a step hardly
changes are counted in the first STEPS of these iterations and in the last ones. It needs only torch, like the script.
"""

import json
import os
import runpy
import sys
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

_LEAST_BYTES = 1 << 20
"""Smaller tables are not counted, as in a profile."""


class Counter:
    """Lookups of all tables by row, in even and in odd iterations, and the rows that steps hardly change."""

    def __init__(self, out: str, first: int, count: int, steps: int, megabytes: float, change: float) -> None:
        self._out, self._first, self._count, self._steps = out, first, count, steps
        self._bytes, self._change = 1e6 * megabytes, change
        self._iteration = 0
        self._tables: dict[torch.nn.Module, torch.Tensor] = {}
        self._seen: dict[torch.nn.Module, torch.Tensor] = {}
        self._before: dict[torch.nn.Module, torch.Tensor] = {}
        self._compared: list[tuple[int, int]] = []

    def look(self, module: torch.nn.Module, given: tuple[Any, ...]) -> None:
        """Count the indices that a table is called with."""
        if not isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) or not torch.is_grad_enabled():
            return
        weight = module.weight
        if (
            weight.numel() * weight.element_size() < _LEAST_BYTES
            or not given
            or self._iteration < self._first
        ):
            return
        rows = given[0].detach().flatten()
        rows = rows[rows != module.padding_idx] if module.padding_idx is not None else rows
        counts = self._tables.setdefault(module, torch.zeros(2, len(weight), dtype=torch.int64))
        counts[self._iteration % 2] += torch.bincount(rows, minlength=len(weight))
        known = self._seen.get(module)
        self._seen[module] = (rows if known is None else torch.cat((known, rows))).unique()

    def before_step(self, *_: object) -> None:
        """Keep the rows that this iteration looked up."""
        self._before = {one: one.weight.detach()[rows].clone() for one, rows in self._seen.items()}  # type: ignore[operator,index]

    def after_step(self, *_: object) -> None:
        """Compare the stored rows with the new ones, and end the script after the last iteration."""
        steady = rows = 0
        for module, before in self._before.items():
            moved = (module.weight.detach()[self._seen[module]] - before).norm(dim=1)  # type: ignore[operator,index]
            steady += int((moved <= self._change * before.norm(dim=1)).sum())
            rows += len(before)
        if self._iteration >= self._first:
            self._compared.append((steady, rows))
        self._seen, self._before = {}, {}
        self._iteration += 1
        if self._iteration >= self._first + self._count:
            with open(self._out, "w", encoding="utf-8") as file:
                json.dump(self.shares(), file)
            os._exit(0)

    def shares(self) -> dict[str, float]:
        """The shares of lookups in the hottest rows and of rows that hardly change, and the bytes of all tables."""
        per_row = [one.weight[0].numel() * one.weight.element_size() for one in self._tables]  # type: ignore[operator,index]
        sizes = torch.cat(
            [
                torch.full((counts.shape[1],), float(size))
                for counts, size in zip(self._tables.values(), per_row, strict=True)
            ]
        )
        counts = torch.cat(list(self._tables.values()), dim=1).double()
        found = []
        for chosen, counted in ((0, 1), (1, 0)):
            order = (counts[chosen] / sizes).argsort(descending=True)
            hot = order[sizes[order].cumsum(0) <= self._bytes]
            found.append(float(counts[counted][hot].sum() / counts[counted].sum()))
        return {
            "hot": sum(found) / 2,
            "first": found[0],
            "second": found[1],
            "steady": _share(self._compared[: self._steps]),
            "steady_later": _share(self._compared[-self._steps :]),
            "bytes": float(sizes.sum()),
        }


def _share(compared: list[tuple[int, int]]) -> float:
    return sum(steady for steady, _ in compared) / max(1, sum(rows for _, rows in compared))


def main() -> None:
    out, first, count, steps, megabytes, change, script, *arguments = sys.argv[1:]
    counter = Counter(out, int(first), int(count), int(steps), float(megabytes), float(change))
    register_module_forward_pre_hook(counter.look)
    register_optimizer_step_pre_hook(counter.before_step)
    register_optimizer_step_post_hook(counter.after_step)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
