"""Iterations at fixed weights, whose gradients are compared: the input of the gradient noise scale.

The optimizers find no gradients, so that weights and optimizer states do not change. Random states and buffers of
modules (averages of BatchNorm) are restored at the end. Batches are taken from the script's loader as usual.
"""

from __future__ import annotations

import math
import random
import sys

import torch
from torch.nn import functional

from .devices import backend
from .module_facts import named_modules
from .observed_keras import is_of_keras, parameters_of
from .recording import memory

_WIDTH = 1 << 16
"""Length of a sketch. With up to this many parameters, it is the gradient itself with random signs."""
_SEED = 1234567
_BACKENDS_WITH_DOUBLES = ("cpu", "cuda", "xpu")


class GradientPass:
    """A number of iterations at fixed weights; it stores a sketch of each iteration's gradient.

    A sketch adds up coordinates that are ``_WIDTH`` apart, each with a random sign. The inner products of these short
    vectors are unbiased estimates of the inner products of the gradients.
    """

    event = "gradients"

    def __init__(self, optimizers, iterations):
        self.remaining = iterations
        self.problem = ""
        self.discarded = 0
        self._parameters = _trained(optimizers)
        self._optimizers = [optimizer for _, optimizer in optimizers]
        self._hidden = {}
        self._sketches = []
        self._losses = []
        self._latest = None
        self._loss = None
        self._stepped = False
        self._lasting = _Lasting(self._parameters)

    def after_backward(self, tensors):
        """Take the gradients after a backward pass from these tensors, before clipping."""
        if self._stepped:
            self.problem = "updates its weights several times in an iteration, as a GAN does"
            return
        self._loss = tensors[0].detach() if tensors and tensors[0].numel() == 1 else None
        self._latest = _sketch(self._parameters)

    def before_step(self, optimizer):
        """Hide the gradients from an optimizer that is about to step."""
        if not any(optimizer is known for known in self._optimizers):
            self.problem = "continues with another optimizer, whose weights were not observed"
        held = [(parameter, parameter.grad) for parameter in parameters_of(optimizer)]
        self._hidden[id(optimizer)] = held
        for parameter, _ in held:
            parameter.grad = None

    def after_step(self, optimizer):
        """Restore the gradients after the optimizer's step."""
        for parameter, gradient in self._hidden.pop(id(optimizer), ()):
            parameter.grad = gradient
        self._stepped = True

    def end_iteration(self):
        """Store the sketch of the iteration that ends here; a sketch with overflow is discarded."""
        latest, self._latest = self._latest, None
        loss, self._loss = self._loss, None
        self._stepped = False
        self.remaining -= 1
        if latest is None:
            self.problem = self.problem or "leaves no gradients behind at the end of its backward pass"
        elif not math.isfinite(float(latest.sum())):
            self.discarded += 1
        else:
            self._sketches.append(latest)
            if loss is not None:
                self._losses.append(float(loss))

    def end(self):
        """Restore the lasting state; returns the inner products of all gradients, and the mean loss."""
        self._lasting.restore()
        rows = torch.stack(self._sketches) if self._sketches else torch.zeros(0, 1, device="cpu")
        with torch.no_grad():
            products = (rows @ rows.T).tolist()
        finite = [loss for loss in self._losses if math.isfinite(loss)]
        return {
            "products": products,
            "loss": sum(finite) / len(finite) if finite else None,
            "discarded": self.discarded,
            "problem": self.problem,
        }


class _Lasting:
    """Random states and buffers at the time when this object was created."""

    def __init__(self, parameters):
        trained = set(map(id, parameters))
        self._python = random.getstate()
        self._numpy = sys.modules.get("numpy")
        self._numpy_state = self._numpy and self._numpy.random.get_state()
        self._torch = torch.get_rng_state()
        self._devices = [(one, one.random_state(one.current())) for one in backend.used_backends()]
        roots = {
            path.partition(".")[0]
            for path, module in named_modules()
            if any(id(one) in trained for one in module.parameters(recurse=False))
        }
        with torch.no_grad():
            self._buffers = [
                (buffer, buffer.clone())
                for path, module in named_modules()
                if path.partition(".")[0] in roots
                for buffer in module.buffers(recurse=False)
                if not buffer.is_inference()
            ]

    def restore(self):
        random.setstate(self._python)
        if self._numpy is not None:
            self._numpy.random.set_state(self._numpy_state)
        torch.set_rng_state(self._torch)
        for one, state in self._devices:
            one.set_random_state(one.current(), state)
        with torch.no_grad():
            for buffer, before in self._buffers:
                buffer.copy_(before)


def refusal(styles, optimizers):
    """The reason why gradients cannot be compared in this script, as the rest of a sentence; empty if they can."""
    if not optimizers:
        return "updates its weights without a torch optimizer"
    if any(is_of_keras(optimizer) for _, optimizer in optimizers):
        return "has a Keras optimizer, which receives its gradients as arguments"
    if "captured graph" in styles:
        return "replays a captured graph, which updates the weights"
    if "closure" in styles:
        return "has an optimizer that computes gradients itself (a closure)"
    return ""


def _trained(optimizers):
    parameters, _ = memory.of_optimizers(optimizers)
    return list({id(one): one for one in parameters if one.requires_grad}.values())


def _sketch(parameters):
    """The sketch of the gradients; None if there are none."""
    sums = {}
    offset = 0
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            gradient = parameter.grad
            if gradient is not None:
                part = _part(gradient, index, offset % _WIDTH)
                device = part.device
                sums[device] = sums[device] + part if device in sums else part
            offset += parameter.numel()
        parts = [part.to("cpu", torch.float64) for part in sums.values()]
        return torch.stack(parts).sum(0) if parts else None


def _part(gradient, seed, offset):
    values = gradient.detach()
    if values.layout is not torch.strided:
        values = values.to_dense()
    values = values.reshape(-1)
    values = values.to(torch.float64 if values.device.type in _BACKENDS_WITH_DOUBLES else torch.float32)
    # A separate generator does not change the script's random numbers.
    chance = torch.Generator(device=values.device)
    chance.manual_seed(_SEED + seed)
    signs = torch.randint(0, 2, values.shape, generator=chance, device=values.device, dtype=torch.int8)
    signed = torch.where(signs.bool(), values, -values)
    padded = functional.pad(signed, (offset, -(offset + len(signed)) % _WIDTH))
    return padded.view(-1, _WIDTH).sum(0)
