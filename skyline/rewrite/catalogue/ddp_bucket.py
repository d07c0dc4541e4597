"""Sets the size of the buckets that gradients travel in: ``bucket_cap_mb``."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.source.edit import TextEdit

NAME = "ddp_bucket"


def snippet(value: str) -> str:
    """The argument of the wrapper."""
    return f"model = DistributedDataParallel(model, bucket_cap_mb={value or 25})\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """``bucket_cap_mb=…`` in the call that wraps the model."""
    module, call = replicas_arguments(context)
    return set_argument(context, module, call, "bucket_cap_mb", _megabytes(value))


def _megabytes(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise RewriteRefused(f"{value!r} is not a value for {NAME}", hint="Give megabytes.")
    return str(int(number)) if number.is_integer() else str(number)
