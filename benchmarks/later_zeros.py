"""Run a script, and count the zeros that its layers multiply in later iterations, and the bits their values need.

    python benchmarks/later_zeros.py OUT FIRST COUNT SCRIPT [ARGUMENTS]

From iteration FIRST on, it examines every value of COUNT iterations, and then ends the script. It needs only torch,
like the script.
"""

import json
import os
import runpy
import sys
from collections import defaultdict
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

_LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_LARGEST = (1 << 15) - 1
_BITS = 16


class Counter:
    """Zeros of inputs, weights and gradients by layer and call, and bits of all of their values."""

    def __init__(self, out: str, first: int, count: int) -> None:
        self._out, self._first, self._count = out, first, count
        self._iteration = 0
        # By half of the iterations and layer: multiplications, and the mean shares of zeros with their calls.
        self._work: dict[tuple[int, torch.nn.Module], float] = defaultdict(float)
        self._zeros: dict[tuple[int, torch.nn.Module, str], list[float]] = defaultdict(list)
        self._bits = [[0.0, 0.0], [0.0, 0.0]]

    def look(self, module: torch.nn.Module, given: tuple[Any, ...], result: Any) -> None:
        """Count the values of a layer's input, and of the gradient of its result."""
        if type(module) not in _LAYERS or not module.training or self._iteration < self._first:
            return
        half = self._iteration % 2
        weight: Any = module.weight
        self._work[half, module] += result.numel() * weight.numel() / len(weight)
        self._count_in(half, module, "inputs", given[0])
        self._count_in(half, module, "weights", weight)
        if result.requires_grad:
            result.register_hook(lambda gradient: self._count_in(half, module, "gradients", gradient))

    def _count_in(self, half: int, module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
        size = tensor.detach().abs().double()
        self._zeros[half, module, name].append(float((size == 0).double().mean()))
        steps = (size / size.max().clamp(min=torch.finfo(torch.float32).tiny) * _LARGEST).round()
        self._bits[half][0] += float((1 + (steps + 1).log2().ceil()).sum())
        self._bits[half][1] += _BITS * size.numel()

    def after_step(self, *_: object) -> None:
        """End the script after the last iteration."""
        self._iteration += 1
        if self._iteration >= self._first + self._count:
            with open(self._out, "w", encoding="utf-8") as file:
                json.dump(self.shares(), file)
            os._exit(0)

    def shares(self) -> dict[str, list[float]]:
        """For both halves, the share of multiplications without a zero, and the share of 16 bits that values need."""
        return {
            "factors": [1 - self._skipped(half) for half in (0, 1)],
            "bits": [used / stored for used, stored in self._bits],
        }

    def _skipped(self, half: int) -> float:
        zero = total = 0.0
        for (of, module), work in self._work.items():
            if of != half:
                continue
            inputs, weights, gradients = (
                sum(found) / len(found) if (found := self._zeros.get((half, module, name))) else 0.0
                for name in ("inputs", "weights", "gradients")
            )
            pairs = (inputs, weights), (gradients, weights), (gradients, inputs)
            zero += work * sum(max(pair) for pair in pairs)
            total += 3 * work
        return zero / total


def main() -> None:
    out, first, count, script, *arguments = sys.argv[1:]
    counter = Counter(out, int(first), int(count))
    register_module_forward_hook(counter.look)
    register_optimizer_step_post_hook(counter.after_step)
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
