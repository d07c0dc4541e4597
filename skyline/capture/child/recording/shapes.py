"""The arguments of operators as recorded by the profiler, and the resulting arithmetic."""

from __future__ import annotations

import torch

from . import flops
from .backward_thread import BACKWARD_PREFIX

CONVOLUTION = "aten::convolution"
"""An operator whose arithmetic depends on its output, which the profiler does not record."""

_INDEXING = ("aten::index", "aten::index_put_")
_MASK = "aten::nonzero"
"""The operator that turns a mask into indices; the size of its result depends on values."""
_NOT_TENSORS = (int, float, bool, complex, str, list, tuple)


class Shapes:
    """The table of operator calls; equal calls share one row."""

    def __init__(self):
        self._rows = {}
        self._outputs = {}

    @property
    def rows(self):
        """The table, as rows of ``skyline.trace.OperatorShape``."""
        return [
            {
                "operator": operator,
                "inputs": inputs,
                "dtypes": dtypes,
                "outputs": self._outputs.get(number, ()),
                "output_dtypes": dtypes[:1] if number in self._outputs else (),
                "flops": count,
            }
            for (operator, inputs, dtypes), (number, count) in self._rows.items()
        ]

    def correct(self, number, flops_of_row):
        """Set the arithmetic of a row, learned from another operator."""
        if number >= 0:
            key = list(self._rows)[number]
            self._rows[key] = (number, flops_of_row)

    def count_convolution(self, node, record):
        """Count a forward convolution, whose record lacks the output, from the incoming gradient of its backward."""
        if "Convolution" not in node.name:
            return
        waiting = list(node.children)
        while waiting:
            child = waiting.pop()
            if child.name == "aten::convolution_backward":
                shapes, _ = tensors_of(child)
                if len(shapes) < 3:
                    return
                transposed = child.extra_fields.inputs[7] is True
                size = flops.convolution(shapes[0], shapes[2], transposed, shapes[1])
                if not record["flops"]:
                    record["flops"] = size
                    self.correct(record["shape"], size)
                self._learn_output(shapes[1:3], shapes[0], size)
                return
            waiting.extend(child.children)

    def _learn_output(self, inputs, output, size):
        for (operator, known, _), (number, _) in list(self._rows.items()):
            if operator == CONVOLUTION and known[:2] == inputs and number not in self._outputs:
                self._outputs[number] = (output,)
                self.correct(number, size)

    def number_of_shown(self, node):
        """The number of an operator's row; for a backward node, that of the first operator in it.

        The profiler does not record the indices of an indexing operator. Its masks are added to its tensors.
        """
        if node.name.startswith(BACKWARD_PREFIX):
            node = next((child for child in node.children if hasattr(child.extra_fields, "inputs")), node)
        return self.number(node, _masks(node) if node.name in _INDEXING else ())

    def number(self, node, beside=()):
        """The number of an operator's row, with the tensors of other nodes; -1 if it was called without tensors."""
        inputs, dtypes = tensors_of(node)
        for other in beside:
            more_inputs, more_dtypes = tensors_of(other)
            inputs, dtypes = inputs + more_inputs, dtypes + more_dtypes
        if not inputs:
            return -1
        key = (node.name, inputs, dtypes)
        if key not in self._rows:
            self._rows[key] = (len(self._rows), operator_flops(node))
        return self._rows[key][0]


def _masks(node):
    """The nodes below an operator that turn its masks into indices."""
    found, waiting = [], list(node.children)
    while waiting:
        child = waiting.pop()
        if child.name == _MASK:
            found.append(child)
        else:
            waiting.extend(child.children)
    return found


def tensors_of(node):
    """Dimensions and number formats of an operator's tensor arguments, with lists of tensors flattened."""
    inputs, dtypes = [], []
    for value in node.extra_fields.inputs:
        for tensor in value if type(value) is list else (value,):
            if tensor is None or isinstance(tensor, _NOT_TENSORS) or not hasattr(tensor, "sizes"):
                continue
            inputs.append(tuple(tensor.sizes))
            dtypes.append(str(tensor.dtype).replace("torch.", ""))
    return tuple(inputs), tuple(dtypes)


def multiplies(node):
    """True if an operator itself is a product, a convolution or attention."""
    return node.name == CONVOLUTION or flops.is_known(node.name)


def operator_flops(node):
    """The arithmetic of one operator and all operators that it calls; a multiply-add counts as two.

    Operators with a formula count, without the operators that they call in turn.
    """
    if flops.is_known(node.name):
        return flops.count(node.name, [_argument(value) for value in node.extra_fields.inputs])
    total = 0
    waiting = list(node.children)
    while waiting:
        child = waiting.pop()
        fields = child.extra_fields
        if flops.is_known(child.name) and hasattr(fields, "inputs"):
            total += flops.count(child.name, [_argument(value) for value in fields.inputs])
        else:
            waiting.extend(child.children)
    return total


def _argument(value):
    """Dimensions of a tensor, a list of dimensions for a list of tensors, any other value unchanged."""
    if type(value) is list:
        return [_argument(item) for item in value]
    if hasattr(value, "sizes"):
        return tuple(value.sizes)
    return value if not isinstance(value, torch.Tensor) else tuple(value.shape)
