"""Promises that every step uses the same parameters: ``static_graph=True``."""

from __future__ import annotations

from skyline.rewrite.argument import set_argument
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.rewrite.value import check_switched_on
from skyline.source.edit import TextEdit

NAME = "static_graph"


def snippet(value: str) -> str:
    """The argument of the wrapper."""
    return "model = DistributedDataParallel(model, static_graph=True)\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``static_graph=True`` in the call that wraps the model."""
    check_switched_on(NAME, value)
    module, call = replicas_arguments(context)
    return set_argument(context, module, call, "static_graph", "True")
