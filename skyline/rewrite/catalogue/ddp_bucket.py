"""Sets the size of the buckets that gradients travel in: ``bucket_cap_mb``."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.given_argument import as_value, literal_given, without_argument
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.source.edit import TextEdit

NAME = "ddp_bucket"
_ARGUMENT = "bucket_cap_mb"


def snippet(value: str) -> str:
    """The argument of the wrapper."""
    return f"model = DistributedDataParallel(model, bucket_cap_mb={value or 25})\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``bucket_cap_mb=…`` in the call that wraps the model."""
    module, call = replicas_arguments(context)
    return set_argument(context, module, call, _ARGUMENT, _megabytes(value))


def _megabytes(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise RewriteRefused(f"{value!r} is not a value for {NAME}", hint="Give megabytes.")
    return str(int(number)) if number.is_integer() else str(number)


def present(context: RewriteContext) -> str | None:
    """The megabytes that the wrapper is given."""
    return as_value(literal_given(context, *replicas_arguments(context), _ARGUMENT))


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """The wrapper without the argument: buckets of PyTorch's own size."""
    return without_argument(context, *replicas_arguments(context), _ARGUMENT, off="None")
