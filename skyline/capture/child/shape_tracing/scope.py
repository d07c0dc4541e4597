"""Tracks the current PyTorch call of the script: the target of moved tensors, and if it is GPU work."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from .facade import LegacyType
from .virtual import GPU, VirtualTensor

_TRUTH = frozenset(("__bool__", "is_nonzero", "equal", "allclose"))
_FROM_NUMBERS = (torch.tensor, torch.as_tensor, torch.asarray)


class TensorScope(TorchFunctionMode):
    """Carries out calls that move tensors, and tracks the current call.

    ``target`` is the target of the current copy (True: the GPU), None outside of copies.
    """

    def __init__(self, in_backward):
        super().__init__()
        self.target = None
        self.watcher = None
        self._in_backward = in_backward
        self._calls = []
        self._handlers = {
            torch.Tensor.to: self._to,
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.cpu: self._cpu,
            torch.Tensor.type: self._type,
            torch.Tensor.pin_memory: lambda func, args, kwargs: args[0],
            torch.Tensor.is_pinned: lambda func, args, kwargs: False,
            torch.Tensor.new_tensor: self._new_tensor,
            **dict.fromkeys(_FROM_NUMBERS, self._from_numbers),
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(func, args, kwargs)
        if "device" in kwargs:
            kwargs = dict(kwargs, device=_device(kwargs["device"]))
        if kwargs.get("pin_memory"):
            kwargs = dict(kwargs, pin_memory=False)
        self._calls.append((func, _on_gpu(args)))
        try:
            return func(*args, **kwargs)
        finally:
            self._calls.pop()

    def inside_gpu_work(self):
        """True if the current call works on tensors on the GPU."""
        return self._calls[-1][1] if self._calls else self._in_backward()

    def asks_for_truth(self):
        """True if the script reads the truth value of a tensor."""
        return self.asked() in _TRUTH

    def asked(self):
        """The name of the current call; empty outside of calls."""
        return getattr(self._calls[-1][0], "__name__", "") if self._calls else ""

    def move(self, tensor, device, dtype=None, copy=False):
        """The tensor on another device; the tensor itself if it is already there."""
        there = device is not None and device.type == "cuda"
        here = isinstance(tensor, VirtualTensor) and tensor.on_gpu
        if device is not None and device.type not in ("cpu", "cuda"):
            return torch.Tensor.to(tensor, device, dtype)
        if device is None or there == here:
            return torch.Tensor.to(tensor, dtype or tensor.dtype, copy=copy)
        outer, self.target = self.target, there
        try:
            return torch.ops.aten._to_copy(tensor, dtype=dtype or tensor.dtype)
        finally:
            self.target = outer

    def _to(self, func, args, kwargs):
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        for value in (*args[1:], kwargs.get("other")):
            if isinstance(value, torch.Tensor):
                device, dtype = value.device, value.dtype
            elif isinstance(value, torch.dtype):
                dtype = value
            elif isinstance(value, (str, torch.device)) or (
                isinstance(value, int) and not isinstance(value, bool)
            ):
                device = value
        copy = kwargs.get("copy", False)
        format_ = kwargs.get("memory_format")
        switches = [value for value in args[1:] if isinstance(value, bool)]
        non_blocking = bool(kwargs.get("non_blocking", switches[0] if switches else False))
        self._note_move("to", args[0], _device(device), non_blocking)
        moved = self.move(args[0], _device(device), dtype, copy)
        if format_ is not None and format_ is not torch.preserve_format:
            moved = moved.contiguous(memory_format=format_)
        return moved

    def _note_move(self, name, tensor, device, non_blocking):
        copies = device is not None and (device.type == "cuda") != (
            isinstance(tensor, VirtualTensor) and tensor.on_gpu
        )
        self.watcher.moved(name, tensor, device, copies, non_blocking)

    def _cuda(self, func, args, kwargs):
        switches = [value for value in args[1:] if isinstance(value, bool)]
        non_blocking = bool(kwargs.get("non_blocking", switches[0] if switches else False))
        self._note_move("cuda", args[0], GPU, non_blocking)
        return self.move(args[0], GPU)

    def _cpu(self, func, args, kwargs):
        self._note_move("cpu", args[0], torch.device("cpu"), False)
        return self.move(args[0], torch.device("cpu"))

    def _type(self, func, args, kwargs):
        wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
        if isinstance(wanted, LegacyType):
            return self.move(args[0], GPU, wanted.dtype)
        if isinstance(wanted, type):
            wanted = f"{wanted.__module__}.{wanted.__name__}"
        if isinstance(wanted, str) and ".cuda." in wanted:
            return self.move(args[0].type(wanted.replace(".cuda.", ".")), GPU)
        if wanted is None and isinstance(args[0], VirtualTensor) and args[0].on_gpu:
            return func(*args, **kwargs).replace("torch.", "torch.cuda.")
        return func(*args, **kwargs)

    def _from_numbers(self, func, args, kwargs):
        device = _device(kwargs.get("device"))
        if device is None or device.type != "cuda":
            if args and isinstance(args[0], VirtualTensor):
                return self.move(args[0], device, kwargs.get("dtype"))
            return func(*args, **kwargs)
        rest = {name: value for name, value in kwargs.items() if name not in ("device", "requires_grad")}
        if args and isinstance(args[0], torch.Tensor):
            made = self.move(args[0], device, kwargs.get("dtype"))
        else:
            made = self.move(func(*args, **rest, device="cpu"), device)
        return made.detach().requires_grad_() if kwargs.get("requires_grad") else made

    def _new_tensor(self, func, args, kwargs):
        like = args[0]
        kwargs = dict(kwargs)
        device = _device(kwargs.pop("device", None)) or like.device
        kwargs.setdefault("dtype", like.dtype)
        return self._from_numbers(torch.tensor, args[1:], dict(kwargs, device=device))


def _device(value):
    """The device that a script named; None stays None."""
    if value is None:
        return None
    if isinstance(value, int):
        return GPU
    device = torch.device(value)
    return GPU if device.type == "cuda" else device


def _on_gpu(args):
    for value in args:
        if isinstance(value, VirtualTensor):
            if value.on_gpu:
                return True
        elif isinstance(value, (list, tuple)) and _on_gpu(value):
            return True
    return False
