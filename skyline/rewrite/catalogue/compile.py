"""Compiles the model: ``model.compile()``, or the switch of the framework that trains it."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.compiling import compiled, compiled_mode, without_compiling
from skyline.rewrite.context import RewriteContext
from skyline.source.text import TextEdit

NAME = "compile"
ORDER = 80
_MODES = {"": "", "default": "", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Compiles the model after all other changes to it; refused if the script compiles conditionally."""
    if value not in _MODES:
        raise RewriteRefused(
            f"compile={value} is not possible", hint="Possible: default, reduce-overhead, max-autotune."
        )
    return compiled(context, _MODES[value])


def present(context: RewriteContext) -> str | None:
    """The mode in which the script compiles its model."""
    return compiled_mode(context)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the compilation; the weights have the names of the uncompiled model."""
    return without_compiling(context)
