"""Leaves gradients in the buckets that they travel in: ``gradient_as_bucket_view=True``."""

from __future__ import annotations

from skyline.rewrite.argument import set_argument
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.given_argument import as_value, literal_given, without_argument
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.rewrite.value import check_switched_on
from skyline.source.edit import TextEdit

NAME = "gradient_as_bucket_view"


def snippet(value: str) -> str:
    """The argument of the wrapper."""
    return "model = DistributedDataParallel(model, gradient_as_bucket_view=True)\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``gradient_as_bucket_view=True`` in the call that wraps the model."""
    check_switched_on(NAME, value)
    module, call = replicas_arguments(context)
    return set_argument(context, module, call, "gradient_as_bucket_view", "True")


def present(context: RewriteContext) -> str | None:
    """``on`` where the wrapper is given it."""
    return as_value(literal_given(context, *replicas_arguments(context), NAME))


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The wrapper without the argument."""
    return without_argument(context, *replicas_arguments(context), NAME, off="False")
