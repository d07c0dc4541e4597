"""The parameters of a run: their names, and the lines that created their modules."""

from __future__ import annotations

import gc

import torch

from ..observed_keras import own_variables

_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module.")
OF_KERAS = "_torch_params"
"""Name of a dictionary in models and layers of Keras with all their parameters, including those of sublayers."""


class Parameters:
    """Numbers the parameters of optimizers; ``rows`` describes each by name, size and line."""

    def __init__(self, module_lines):
        self._module_lines = module_lines
        self._numbers = {}
        self._owners = {}
        self.rows = []
        self.sent = 0

    def add(self, parameters):
        """Number new parameters, with names from a search through the modules."""
        new = [one for one in parameters if id(one) not in self._numbers]
        if not new:
            return
        owners = self._named()
        for one in new:
            self._numbers[id(one)] = len(self.rows)
            name, line = owners.get(id(one), (f"parameter {len(self.rows)}", None))
            self.rows.append({"name": name, "dimensions": one.dim(), "elements": one.numel(), "line": line})

    def number(self, parameter):
        """The number of a parameter, or -1."""
        return self._numbers.get(id(parameter), -1)

    def unsent(self):
        """Rows that have not been sent to the watcher yet."""
        rows, self.sent = self.rows[self.sent :], len(self.rows)
        return rows

    def _named(self):
        """Name and line of each parameter, by its id."""
        found = {}
        for root in root_modules():
            for path, module in root.named_modules():
                if path.rpartition(".")[2] == OF_KERAS:
                    continue
                line = self._module_lines.line(module)
                own = {
                    _plain(f"{path}.{name}" if path else name): parameter
                    for name, parameter in module._parameters.items()
                    if parameter is not None
                }
                for name, parameter in {**own, **own_variables(module)}.items():
                    known = found.get(id(parameter))
                    if known is None or known[1] is None:
                        found[id(parameter)] = name, line
        return found


def root_modules():
    """Modules that are part of no other module, largest first."""
    known = {}
    modules = []
    for thing in gc.get_objects():
        kind = type(thing)
        is_module = known.get(kind)
        if is_module is None:
            is_module = known[kind] = issubclass(kind, torch.nn.Module)
        if is_module:
            modules.append(thing)
    inside = set()
    for module in modules:
        inside.update(id(child) for child in module.__dict__.get("_modules", {}).values())
    roots = [module for module in modules if id(module) not in inside and "_parameters" in module.__dict__]
    return sorted(roots, key=lambda root: -sum(1 for _ in root.modules()))


def _plain(name):
    for wrapper in _WRAPPERS:
        while name.startswith(wrapper):
            name = name[len(wrapper) :]
    return name
