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
    """Behind all that makes the model, other rewrites included; refused where the script compiles on a condition."""
    if value not in _MODES:
        raise RewriteRefused(
            f"compile={value} is not possible", hint="Possible: default, reduce-overhead, max-autotune."
        )
    return compiled(context, _MODES[value])


def present(context: RewriteContext) -> str | None:
    """The mode in which the script compiles its model."""
    return compiled_mode(context)


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The model as it was made; the names of its weights are those of the model that is not compiled."""
    return without_compiling(context)
