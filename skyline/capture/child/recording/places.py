"""The tables of a recording: lines of user code, modules, and called library functions."""

from __future__ import annotations

import functools
import os
import re
import sys

from .. import user_code
from .tree_nodes import text_of

_BUILT_IN = re.compile(r"<built-in (?:function|method) (\w+)")
_LIBRARIES = re.compile(r"(?:site|dist)-packages/(.*)$")
_PLUMBING = frozenset({
    "wrapper", "wrapped", "inner", "decorate_context", "decorate_fwd", "decorate_bwd", "_wrapped_call_impl",
    "_call_impl", "_fn", "__torch_function__", "_use_grad", "_optimizer_step_code",
})  # fmt: skip
"""Functions that only pass a call on: the function that they call names the work better."""


class PlaceTable:
    """Tables whose rows are numbered in the order of their first use."""

    def __init__(self, module_names):
        self._lines = {}
        self._modules = {}
        self._functions = {}
        self._files = {}
        self._dotted = {}
        self._module_names = module_names

    def line(self, frame):
        """The number of a frame's line if it is user code, else None."""
        path = self.user_path(frame.file_name)
        if path is None:
            return None
        return self.numbered(path, frame.line_number, text_of(frame, "function_name"))

    def numbered(self, path, number, function):
        """The row number of a line of user code, given its file and line number."""
        return self._lines.setdefault((path, number, function), len(self._lines))

    def user_path(self, name):
        """The full path of a file if it is user code, else None.

        The profiler strips entries of ``sys.path`` from file names, so that the file is searched for again.
        """
        if name not in self._files:
            places = (
                [name]
                if os.path.isabs(name)
                else [os.path.join(entry or os.getcwd(), name) for entry in sys.path]
            )
            path = next((place for place in places if os.path.isfile(place)), None)
            own = path is not None and user_code.is_user_file(path)
            self._files[name] = os.path.realpath(path) if own else None
        return self._files[name]

    def module(self, module):
        """The number of the module of a call, by its path within the model."""
        return self.named_module(self._module_names.get(module.self_ptr, module.cls_name))

    def named_module(self, name):
        """The number of a module, or of an optimizer's parameter group, by name."""
        return self._modules.setdefault(name, len(self._modules))

    def function(self, callsite):
        """The number of a library function; None for plumbing that only passes a call on."""
        key = (callsite.file_name, text_of(callsite, "function_name"))
        if key not in self._dotted:
            file, name = key
            file = file.replace("\\", "/")
            plumbing = (
                name in _PLUMBING
                or name.startswith("<")
                or "torch/nn/modules/" in file
                or file.endswith(("torch/overrides.py", "torch/optim/optimizer.py", "torch/_tensor.py"))
                or _is_own(file)
            )
            self._dotted[key] = None if plumbing else f"{_module_of(file)}.{name}"
        return self._number(self._dotted[key])

    def built_in(self, name):
        """The number of a C function, given the profiler's name for it; None if it has no name."""
        found = _BUILT_IN.match(name)
        return self._number(found.group(1) if found else None)

    def _number(self, name):
        return None if name is None else self._functions.setdefault(name, len(self._functions))

    @property
    def lines(self):
        """The table of lines, as rows of ``skyline.trace.CodeLine``."""
        return [{"file": file, "line": line, "function": name} for file, line, name in self._lines]

    @property
    def modules(self):
        """The table of module paths."""
        return list(self._modules)

    @property
    def functions(self):
        """The table of library functions with dotted names."""
        return list(self._functions)


def _is_own(file):
    """True if a file, whose path may lack its first part, belongs to this package."""
    name, known = os.path.basename(file), "/" + file.lstrip("/")
    return any(f"{folder}/{name}".endswith(known) for folder in _own_folders())


@functools.cache
def _own_folders():
    return tuple(folder.replace("\\", "/") for folder, _, _ in os.walk(user_code.FOLDER))


def _module_of(file):
    """``torch.nn.functional`` for ``torch/nn/functional.py``; folders above a library are left out."""
    found = _LIBRARIES.search(file)
    name = found.group(1) if found else file
    if os.path.isabs(name):
        name = os.path.basename(name)
    name = name[:-3] if name.endswith(".py") else name
    name = name[: -len("/__init__")] if name.endswith("/__init__") else name
    return name.replace("/", ".")
