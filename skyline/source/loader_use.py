"""Finds programs that certainly make no ``DataLoader``, so that the length of an epoch is unknown."""

from __future__ import annotations

import ast
import sys

from skyline.source.program import Module, Program, ReadSource
from skyline.source.text import SourceText

_MAKE_NONE = (sys.stdlib_module_names - {"importlib", "runpy"}) | {
    "torch", "torchaudio", "torchvision", "numpy", "scipy", "PIL", "tqdm", "matplotlib", "einops", "tiktoken",
}  # fmt: skip
"""Packages that make no loader for a program unless it names the loader's class."""


def surely_has_no_loader(script: SourceText, read: ReadSource) -> bool:
    """True if no file of the program names a loader class, or imports a package that may make one for it.

    Raises:
        UsageError: the script is not Python.
    """
    program = Program(script, read)
    return not program.is_cut and not any(
        _may_make_one(program, module, node) for module, node in program.nodes()
    )


def _may_make_one(program: Program, module: Module, node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name.endswith("Loader"):
            return True
        case ast.Import(names=names):
            return any(_is_foreign(program, module, one.name) for one in names)
        case ast.ImportFrom(module=name, level=level):
            return _is_foreign(program, module, name or "", level)
        case _:
            return False


def _is_foreign(program: Program, importer: Module, name: str, level: int = 0) -> bool:
    """True if an import is neither a file of the program nor a package that makes no loader."""
    if not level and name.partition(".")[0] in _MAKE_NONE:
        return False
    return program.find_module(importer, name, level) is None
