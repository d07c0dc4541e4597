"""A tensor with everything except numbers: shape, type, strides, gradient and reported device."""

from __future__ import annotations

import torch

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)

_set_data = torch.Tensor.data.__set__
_get_data = torch.Tensor.data.__get__


class Runner:
    """The functions that carry out operators on virtual tensors; set once, when tracing begins."""

    run = None
    sync = None


class VirtualTensor(torch.Tensor):
    """Represents a tensor on the host or on the GPU.

    For PyTorch's own code it is a CPU tensor, so that autograd, autocast and every composed operator work without a
    GPU. To the script it reports the device to which it was moved. ``meta`` is the tensor for PyTorch's shape rules;
    virtual tensors with the same storage of ``meta`` share memory. ``known`` has its numbers, or None.
    """

    @staticmethod
    def __new__(cls, meta, on_gpu, known=None):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            meta.size(),
            strides=meta.stride(),
            storage_offset=meta.storage_offset(),
            dtype=meta.dtype,
            device=CPU,
            requires_grad=False,
        )
        made.meta = meta
        made.on_gpu = on_gpu
        made.known = known
        return made

    def __init__(self, meta, on_gpu, known=None):
        pass

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return Runner.run(func, args, kwargs or {})

    def become(self, other):
        """Take over the device, type and memory of another tensor, while references to this one stay valid."""
        if other.dtype != self.dtype or other.shape != self.shape or other.stride() != self.stride():
            _set_data(self, other)
        self.meta, self.on_gpu, self.known = other.meta, other.on_gpu, other.known

    # Properties that a script can query.

    @property
    def device(self):
        return GPU if self.on_gpu else CPU

    @property
    def is_cuda(self):
        return self.on_gpu

    @property
    def is_cpu(self):
        return not self.on_gpu

    @property
    def data(self):
        return _get_data(self)

    @data.setter
    def data(self, value):
        if not isinstance(value, VirtualTensor):
            value = VirtualTensor(meta_like(value), self.on_gpu)
        self.become(value)

    def get_device(self):
        return 0 if self.on_gpu else -1

    def is_pinned(self, *_):
        return False

    def data_ptr(self):
        return self.meta.untyped_storage()._cdata

    def record_stream(self, _):
        return None

    def share_memory_(self):
        return self

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copy = self.detach().clone()
        copy.requires_grad_(self.requires_grad)
        copy.__dict__.update(
            {name: value for name, value in self.__dict__.items() if name not in copy.__dict__}
        )
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy

    # Reading numbers: unknown numbers are ones, and a read waits for the GPU.

    def numbers(self):
        """A real tensor with the numbers of this one."""
        Runner.sync(self)
        if self.known is not None:
            return self.known.clone()
        return torch.ones(self.shape, dtype=self.dtype, device=CPU)

    def numpy(self, **_):
        return self.numbers().numpy()

    def __array__(self, dtype=None, *_, **__):
        array = self.numbers().numpy()
        return array if dtype is None else array.astype(dtype)

    def tolist(self):
        return self.numbers().tolist()

    def __format__(self, spec):
        if self.dim() == 0:
            return format(self.item(), spec)
        return format(str(self), spec)

    def __repr__(self, **_):
        Runner.sync(self)
        return f"tensor(..., size={tuple(self.shape)}, dtype={self.dtype}, device='{self.device}')"

    __str__ = __repr__

    def __reduce_ex__(self, protocol):
        return (_rebuilt, (tuple(self.shape), self.dtype, self.requires_grad))


def _rebuilt(shape, dtype, requires_grad):
    return torch.zeros(shape, dtype=dtype).requires_grad_(requires_grad)


def meta_like(tensor):
    """A tensor without memory, of the same shape, strides and type, created without dispatch to the tracer."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
