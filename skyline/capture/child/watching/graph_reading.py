"""Reads activations and targets of one iteration from the autograd graph before its backward pass.

The graph stores the outputs of ReLU, Sigmoid and Tanh, and the targets of a classification. Reading them needs no hook
in the forward pass, so that compiled code and fast paths of modules do not change.
"""

from __future__ import annotations

import torch

_MOST_NODES = 3000
_MOST_ACTIVATIONS = 32
_MOST_ELEMENTS = 500_000
_LEAST_PER_UNIT = 16
_MOST_TARGETS = 512
_KINDS = {"ReluBackward0": "relu", "SigmoidBackward0": "sigmoid", "TanhBackward0": "tanh"}
_FLAT_BELOW = {"sigmoid": 0.0025, "tanh": 0.01}
"""Limits of the derivative: a lower one is less than 1 % of the maximum."""


class Activation:
    """An activation in the graph: its kind, the parameter of the layer before it, and a share as a tensor.

    It is the share of units without any positive output (``relu``), or of outputs at which the function is flat.
    """

    __slots__ = ("kind", "parameter", "share")

    def __init__(self, kind, parameter, share):
        self.kind = kind
        self.parameter = parameter
        self.share = share


class GraphReading:
    """``activations`` in hidden layers, and the ``targets`` of a classification of ``classes`` classes."""

    def __init__(self, loss):
        self.activations = []
        self.targets = None
        self.classes = 0
        self.weighted = False
        with torch.no_grad():
            self._walk(loss.grad_fn)

    def _walk(self, start):
        """Walk the graph breadth first; a node is hidden if there is a parameter between it and the loss."""
        seen = {start}
        level = [(start, False)]
        while level and len(seen) < _MOST_NODES:
            following = []
            for node, hidden in level:
                if node is None:
                    continue
                kind = _KINDS.get(node.name())
                if kind and hidden and len(self.activations) < _MOST_ACTIVATIONS:
                    self._see_activation(node, kind)
                elif self.targets is None and node.name().startswith("NllLossBackward"):
                    self._see_targets(node)
                below = hidden or _parameter_at(node) is not None
                for child, _ in node.next_functions:
                    if child is not None and child not in seen:
                        seen.add(child)
                        following.append((child, below))
            level = following

    def _see_activation(self, node, kind):
        layer = next((child for child, _ in node.next_functions if child is not None), None)
        parameter, steps = None, 0
        while layer is not None and parameter is None and steps < 4:
            parameter = _parameter_at(layer)
            source = layer
            layer = next((child for child, _ in layer.next_functions if child is not None), None)
            steps += 1
        output = node._saved_result.detach()
        if not output.dim() or not output.numel():
            return
        each = output[0].numel()
        output = output[: max(1, _MOST_ELEMENTS // max(1, each))]
        if kind == "relu":
            convolved = parameter is not None and "onvolution" in source.name()
            units = 1 if output.dim() > 3 or (convolved and output.dim() > 2) else output.dim() - 1
            if output.numel() // max(1, output.shape[units]) < _LEAST_PER_UNIT:
                return
            others = [dimension for dimension in range(output.dim()) if dimension != units]
            share = (output.amax(dim=others) <= 0).float().mean()
        else:
            slope = output * (1 - output) if kind == "sigmoid" else 1 - output * output
            share = (slope < _FLAT_BELOW[kind]).float().mean()
        self.activations.append(Activation(kind, parameter, share))

    def _see_targets(self, node):
        target = node._saved_target
        if target.dim() != 1 or target.dtype != torch.int64 or _is_a_sequence(target):
            return
        self.classes = int(node._saved_self.shape[-1])
        self.weighted = node._saved_weight is not None
        self.targets = target.detach()[:_MOST_TARGETS]


def _parameter_at(node):
    """The parameter that an operation reads directly or through a transposition, or None."""
    for child, _ in node.next_functions:
        if child is None:
            continue
        source = child.next_functions[0][0] if child.name() == "TBackward0" else child
        variable = getattr(source, "variable", None)
        if variable is not None:
            return variable
    return None


def _is_a_sequence(target):
    """True for flattened tokens of several sequences, whose classes are never balanced."""
    base = target._base
    return base is not None and base.dim() > 1 and base.shape[0] != target.numel()
