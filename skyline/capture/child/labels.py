"""Counts the labels of a classification while the script warms up: the number of labels below certain classes.

Labels are read from the autograd graph before a backward pass, so that the forward pass needs no hook.
"""

from __future__ import annotations

import contextlib

import torch
from torch.utils import _python_dispatch

_MOST_PASSES = 8
_MOST_NODES = 64
_MOST_LABELS = 1 << 20
_LEAST_CLASSES = 1000
"""Labels of fewer classes are not stored, because nothing depends on them."""
_EDGES = 2
"""Number of class limits per doubling of the class index."""


class Labels:
    """Reads the labels of the first backward passes; ``fact`` returns the counts."""

    def __init__(self):
        self._remaining = _MOST_PASSES
        self._seen = []

    def see(self, tensors):
        """Read the labels before a backward pass from these tensors. Returns their number; None if there are none."""
        # A traced script computes no numbers.
        if self._remaining <= 0 or not tensors or _python_dispatch._len_torch_dispatch_stack() > 0:
            return None
        self._remaining -= 1
        # Graphs of other libraries, and saved tensors with hooks, may raise errors.
        with contextlib.suppress(Exception), torch.no_grad():
            target = _target(tensors[0].grad_fn)
            if target is not None and target.numel() <= _MOST_LABELS:
                known = target.detach().cpu().reshape(-1)
                self._seen.append(known[known >= 0])
                return target.numel()
        return None

    def fact(self):
        """A row of ``skyline.trace.LabelFact``; None if there are no labels of many classes."""
        if not self._seen:
            return None
        labels = torch.cat(self._seen)
        largest = int(labels.max()) if labels.numel() else 0
        if largest < _LEAST_CLASSES:
            return None
        classes, step = [1], 0
        while classes[-1] <= largest:
            step += 1
            classes.append(max(classes[-1] + 1, round(2 ** (step / _EDGES))))
        below = torch.searchsorted(labels.sort().values, torch.tensor(classes, device="cpu")).tolist()
        return {"counted": labels.numel(), "classes": classes, "below": below}


def _target(start):
    """The targets of the nearest negative log-likelihood loss in the graph of a tensor; None if there is none."""
    level, seen = [start], {start}
    while level and len(seen) < _MOST_NODES:
        following = []
        for node in level:
            if node is None:
                continue
            if node.name().startswith("NllLossBackward"):
                return node._saved_target if node._saved_target.dtype == torch.int64 else None
            for child, _ in node.next_functions:
                if child is not None and child not in seen:
                    seen.add(child)
                    following.append(child)
        level = following
    return None
