"""Finds the number of backward passes before each update in scripts that update their weights by hand."""

from __future__ import annotations

import torch

_MOST_NODES = 4096


class HandWrittenUpdates:
    """Detects from a parameter's gradient if a backward pass starts a new update or adds to earlier passes.

    A script without an optimizer clears its gradients after it has used them. An update therefore consists of the
    passes from one pass that finds cleared gradients to the next such pass.
    """

    def __init__(self):
        self.passes_per_update = 1
        self._passes = 0
        self._fixed = False

    def before_pass(self, tensors):
        """Look at the gradients before a backward pass from ``tensors``."""
        if self._fixed:
            return
        leaf = _first_leaf(tensors)
        if leaf is None or leaf.grad is None or not _any_nonzero(leaf.grad):
            self.passes_per_update = max(1, self._passes)
            self._passes = 0

    def after_pass(self):
        """Count a backward pass; True if the update comes next."""
        self._passes += 1
        if self._passes < self.passes_per_update:
            return False
        if self._fixed:
            self._passes = 0
        return True

    def fix(self):
        """Only count passes from now on, without looking at gradients."""
        self._fixed = True
        self._passes = 0


def _any_nonzero(gradient):
    try:
        return bool(torch.count_nonzero(gradient.detach()))
    except (RuntimeError, TypeError, NotImplementedError):
        return False


def _first_leaf(tensors):
    """A parameter that the pass will reach: the first one in a breadth-first search of the graph."""
    waiting = [tensor.grad_fn for tensor in tensors if isinstance(tensor, torch.Tensor)]
    seen = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            return leaf
        waiting.extend(following for following, _ in node.next_functions)
    return None
