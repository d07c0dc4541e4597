"""Statistics of tensors in one iteration: gradients, updates of weights, activations, targets."""

from __future__ import annotations

import torch

from ..observed_keras import parameters_of
from .graph_reading import GraphReading

_MOST_UPDATES = 16
_MOST_COMPARED = 1024
_BYTES_PER_S = 200e9
"""Lower estimate of an accelerator's memory bandwidth, to estimate its time, which the host does not see."""


class Sample:
    """Collects one-element tensors during an iteration; ``send`` reads them and sends them."""

    def __init__(self, iteration, parameters):
        self.iteration = iteration
        self._parameters = parameters
        self._gradients = []
        self._missing = []
        self._updates = []
        self._before = []
        self._complete = 0, 0
        self._reading = None
        self.device_s = 0.0

    def see_loss(self, loss):
        """Read the graph before a backward pass."""
        if self._reading is None and loss.grad_fn is not None:
            self._reading = GraphReading(loss)
            self._parameters.add(
                [one.parameter for one in self._reading.activations if one.parameter is not None]
            )

    def before_step(self, optimizer):
        """Take norms of the complete gradients, and copies of the old weights."""
        trained = [one for one in parameters_of(optimizer) if one.requires_grad]
        self._parameters.add(trained)
        self._complete = len(self._gradients), len(self._missing)
        with torch.no_grad():
            plain = [(one, one.grad) for one in trained if _is_plain(one) and _is_plain(one.grad)]
            self._missing += [self._parameters.number(one) for one in trained if one.grad is None]
            for device in {gradient.device for _, gradient in plain}:
                here = [(one, gradient) for one, gradient in plain if gradient.device == device]
                norms = torch._foreach_norm([gradient for _, gradient in here])
                self._gradients += [
                    (self._parameters.number(one), norm) for (one, _), norm in zip(here, norms, strict=True)
                ]
                if device.type != "cpu":
                    read = sum(gradient.numel() * gradient.element_size() for _, gradient in here)
                    self.device_s += read / _BYTES_PER_S
            self._before = [(one, _part(one).clone(), _part(gradient)) for one, gradient in _spread(plain)]

    def put_off(self):
        """Drop the statistics from before the last call, which made no step: the gradients were incomplete."""
        gradients, missing = self._complete
        del self._gradients[gradients:], self._missing[missing:]
        self._before = []

    def after_step(self):
        """Compare the new weights with the old ones."""
        with torch.no_grad():
            for one, before, gradient in self._before:
                change = torch.linalg.vector_norm(_part(one) - before)
                rows = change, torch.linalg.vector_norm(before), torch.linalg.vector_norm(gradient)
                self._updates.append((self._parameters.number(one), rows))
        self._before = []

    def send(self, later, stream, clipped):
        """Send the numbers once they have arrived. ``clipped`` is the norm from the script's clipping."""
        reading = self._reading
        activations = reading.activations if reading is not None else []
        norms = [norm for _, norm in self._gradients]
        updates = [value for _, rows in self._updates for value in rows]
        targets = [] if reading is None or reading.targets is None else [reading.targets]
        tensors = [
            *norms,
            *updates,
            *(one.share for one in activations),
            *([] if clipped is None else [clipped]),
        ]
        if not tensors:
            return

        def arrived(numbers):
            numbers = iter(numbers)
            record = {
                "iteration": self.iteration,
                "gradients": [[number, next(numbers)] for number, _ in self._gradients],
                "missing": self._missing,
                "updates": [[number, *(next(numbers) for _ in rows)] for number, rows in self._updates],
                "activations": [
                    [one.kind, self._parameters.number(one.parameter), next(numbers)] for one in activations
                ],
                "clipped": next(numbers) if clipped is not None else None,
            }
            if targets:
                record["targets"] = targets[0].tolist()
                record["classes"] = reading.classes
                record["weighted"] = reading.weighted
            if rows := self._parameters.unsent():
                stream.send(kind="parameters", rows=rows)
            stream.send(kind="sample", **record)

        if targets and targets[0].device.type != "cpu":
            targets[0] = targets[0].to("cpu", non_blocking=True)
        later.read(tensors, arrived)


def _is_plain(tensor):
    """True for a dense tensor on one device; the norm of other tensors may need communication."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.is_floating_point()
        and tensor.numel() > 0
    )


def _spread(pairs):
    """Some of the pairs, evenly spread from the first to the last."""
    stride = max(1, -(-len(pairs) // _MOST_UPDATES))
    return [*pairs[::stride], *(pairs[-1:] if (len(pairs) - 1) % stride else [])]


def _part(tensor):
    """The first elements of a tensor, from a contiguous part of it."""
    part = tensor.detach()
    while part.dim() > 1 and not part.is_contiguous():
        part = part[0]
    return part.reshape(-1)[:_MOST_COMPARED]
