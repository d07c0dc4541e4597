"""A stand-in for torchvision, for timm's imports, if it cannot be imported with PyTorch's build for CPUs."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

import torch

_NAME = "torchvision"
_kept: list[Any] = []


def provide() -> None:
    """Make ``import torchvision`` work: with its own code if it is installed, otherwise with empty classes."""
    if _imported():
        return
    _forget()
    # Its Python code refers to operators of its library, which does not load with another build of PyTorch.
    library = torch.library.Library(_NAME, "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)
    if not _imported():
        _forget()
        sys.meta_path.insert(0, _Finder())


def _imported() -> bool:
    try:
        __import__(_NAME)
    except (ImportError, RuntimeError):
        return False
    return True


def _forget() -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == _NAME]:
        del sys.modules[name]


class _Empty(type):
    """A class whose attributes are such classes too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty(name, (torch.nn.Module,), {})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty(name, (torch.nn.Module,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != _NAME:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = "0"
