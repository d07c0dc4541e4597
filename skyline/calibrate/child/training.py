"""Time of a training step beyond its operators: Python, modules, autograd, per operator with work to do."""

import statistics
import time

import torch
from clock import STIRRED
from torch.utils._python_dispatch import TorchDispatchMode

_WIDTH, _LAYERS, _BATCH = 16, 6, 4
_ROUNDS = 40
_LEAST_US = 0.1
_NO_WORK = ("empty", "lift", "detach", "_local_scalar_dense", "_unsafe_view", "_reshape_alias")


class _Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(_WIDTH)
        self.mixed = torch.nn.Linear(_WIDTH, 3 * _WIDTH)
        self.out = torch.nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x):
        q, k, v = self.mixed(self.norm(x)).view(_BATCH, 1, 3, _WIDTH).transpose(1, 2).unbind(1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / 4.0, dim=-1)
        return x + self.out((weights @ v).reshape(_BATCH, _WIDTH))


def _layers(kind):
    """Models with negligible computation: stacks of layers, of normalised layers, of attention."""
    if kind == 1:
        return [part for _ in range(_LAYERS) for part in (torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU())]
    if kind == 2:
        each = (torch.nn.Linear, torch.nn.LayerNorm, torch.nn.GELU)
        return [
            made for _ in range(_LAYERS) for made in (each[0](_WIDTH, _WIDTH), each[1](_WIDTH), each[2]())
        ]
    return [_Block() for _ in range(3)]


class _ModelStep:
    """One small model, its loss, its optimizer, each part as a call.

    Between layers the caches are emptied, as by the tensors of a larger model: Python, PyTorch and autograd take longer
    then. ``aside_s`` is the time of the emptying.
    """

    def __init__(self, kind, device):
        self._layers = torch.nn.ModuleList(_layers(kind)).to(device)
        self._parameters = list(self._layers.parameters())
        self.layers = len(self._layers)
        self.on_gpu = device == "cuda"
        self.stirs = False
        self.aside_s = 0.0
        self._optimizer = torch.optim.AdamW(self._parameters, lr=1e-6)
        self._x = torch.rand(_BATCH, _WIDTH, device=device)
        self._y = torch.zeros(_BATCH, dtype=torch.long, device=device)
        self._loss = None
        self.forward()
        self.backward()

    def forward(self):
        with torch.enable_grad():
            x = self._x
            for layer in self._layers:
                self.stir()
                x = layer(x)
            self._loss = torch.nn.functional.cross_entropy(x, self._y)

    def stirred_backward(self):
        """Empty the caches between the layers of all later backward passes."""
        with torch.enable_grad():
            x = self._x
            for layer in self._layers:
                x = layer(x)
                x.register_hook(self.stir)
            self._loss = torch.nn.functional.cross_entropy(x, self._y)

    def stir(self, _=None):
        if self.stirs:
            begin = time.perf_counter()
            STIRRED.add_(0.0)
            self.aside_s += time.perf_counter() - begin

    def backward(self):
        for one in self._parameters:
            one.grad = None
        self._loss.backward(retain_graph=True)

    def optimizer(self):
        self._optimizer.step()


class _Noted(TorchDispatchMode):
    """Records the operators of a part, with their arguments."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **kwargs or {})


def beyond(part, kind, device):
    """Time in µs per operator with work, in excess of the time of the part's operators called alone.

    On a GPU both are host times: the host launches faster than its queue fills.
    """
    step = _ModelStep(kind, device)
    whole = getattr(step, part)
    if part == "backward":
        step.stirred_backward()
    whole()
    with _Noted() as noted:
        whole()
    counted = [
        call
        for call in noted.calls
        if call[0].namespace == "aten" and not call[0].__name__.startswith(_NO_WORK)
    ]
    alone = [_direct(call) for call in counted]
    works = sum(_works(func) for func, _, _ in counted)

    # Caches are emptied as often as between layers.
    apart = max(1, round(len(alone) / step.layers))

    def replayed():
        for place, (function, args, kwargs) in enumerate(alone):
            if place % apart == 0:
                step.stir()
            function(*args, **kwargs)

    # An optimizer iterates over its parameters without other work in between.
    step.stirs = part != "optimizer"
    # Both are measured in turns, so that other load on the machine affects both.
    pairs = [(_once_us(step, whole), _once_us(step, replayed)) for _ in range(_ROUNDS)]
    together_us, alone_us = zip(*pairs, strict=True)
    low, middle, high = statistics.quantiles(together_us, n=4)
    beyond_us = statistics.median(a - b for a, b in zip(together_us, alone_us, strict=True))
    return max(_LEAST_US, beyond_us) / max(1, works), (high - low) / middle


def _once_us(step, call):
    if step.on_gpu:
        torch.cuda.synchronize()
    step.aside_s = 0.0
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin - step.aside_s) * 1e6


def _direct(call):
    """The call by PyTorch's own function or method, which is faster than calling the operator from Python."""
    func, args, kwargs = call
    name = func._schema.name.partition("::")[2]
    for place in (torch, torch._C._nn, torch.Tensor):
        function = getattr(place, name, None)
        if function is None:
            continue
        try:
            function(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError):
            continue
        return function, args, kwargs
    return call


def _works(func):
    aliases = [argument.alias_info for argument in func._schema.arguments if argument.alias_info is not None]
    return not aliases or any(alias.is_write for alias in aliases)
