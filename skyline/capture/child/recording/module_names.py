"""The names of the script's modules."""

from __future__ import annotations

import gc

import torch


def named_modules():
    """Pairs of a path and a module, ``"ResNet.layer1.conv"``, root by root; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    return [
        pair
        for root in modules
        if id(root) not in children
        for pair in root.named_modules(prefix=type(root).__name__)
    ]


def module_names():
    """Paths of all modules by their address; the first one of a module that is in several places."""
    names = {}
    for path, module in named_modules():
        names.setdefault(id(module), path)
    return names
