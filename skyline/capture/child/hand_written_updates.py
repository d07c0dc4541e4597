"""Updates that a script writes by hand: after how many backward passes it makes one."""

from __future__ import annotations

import torch

_MOST_NODES = 4096


class HandWrittenUpdates:
    """Sees from a parameter's gradient whether a backward pass starts again or adds to the passes before it.

    A script without an optimizer clears its gradients when it has used them. So the passes between two that
    start on clear gradients make one update.
    """

    def __init__(self):
        self.passes_per_update = 1
        self._passes = 0
        self._fixed = False

    def before_pass(self, tensors):
        """A backward pass begins at ``tensors``."""
        if self._fixed:
            return
        leaf = _first_leaf(tensors)
        if leaf is None or leaf.grad is None or not _any_nonzero(leaf.grad):
            self.passes_per_update = max(1, self._passes)
            self._passes = 0

    def after_pass(self):
        """A backward pass is over: True where the update comes next."""
        self._passes += 1
        if self._passes < self.passes_per_update:
            return False
        if self._fixed:
            self._passes = 0
        return True

    def fix(self):
        """From now on passes are counted, and no gradient is looked at."""
        self._fixed = True
        self._passes = 0


def _any_nonzero(gradient):
    try:
        return bool(torch.count_nonzero(gradient.detach()))
    except (RuntimeError, TypeError, NotImplementedError):
        return False


def _first_leaf(tensors):
    """A parameter that the pass will reach: the first found down the graph, breadth first."""
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
