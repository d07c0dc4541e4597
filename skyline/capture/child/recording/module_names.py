"""What the modules of the script are called."""

from __future__ import annotations

import gc

import torch


def module_names():
    """Paths of all modules by their address: ``{id: "ResNet.layer1.conv"}``; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    names = {}
    for root in (module for module in modules if id(module) not in children):
        for name, module in root.named_modules(prefix=type(root).__name__):
            names.setdefault(id(module), name)
    return names
