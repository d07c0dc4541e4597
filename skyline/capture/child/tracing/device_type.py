"""``torch.device`` where a bare number means the GPU: PyTorch itself looks for real hardware then."""

from __future__ import annotations

import copyreg

import torch

_device = torch.device


class _DeviceType(type):
    """Its only class stands for the real type, whose objects are its objects too; it makes none of its own."""

    def __call__(cls, *args, **kwargs):
        asked = args[0] if args else kwargs.get("device")
        if isinstance(asked, int) and not isinstance(asked, bool) and len(args) + len(kwargs) == 1:
            return _device("cuda", asked)
        return _device(*args, **kwargs)

    def __instancecheck__(cls, value):
        return isinstance(value, _device)

    def __subclasscheck__(cls, other):
        return other is cls or issubclass(other, _device)

    def __eq__(cls, other):
        return other is cls or other is _device

    def __hash__(cls):
        return hash(_device)

    def __getattr__(cls, name):
        return getattr(_device, name)


def install():
    """Put it in the place of ``torch.device``; devices can still be pickled."""
    facade = _DeviceType("device", (), {"__module__": "torch", "__doc__": _device.__doc__, "__slots__": ()})
    copyreg.pickle(_device, lambda device: (facade, (str(device),)))
    torch.device = facade
