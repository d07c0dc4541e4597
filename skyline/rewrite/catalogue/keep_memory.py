"""Names the environment variables to set for a launch, since glibc reads them when the process starts."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.text import TextEdit

NAME = "keep_memory"
_VARIABLES = {"MALLOC_TRIM_THRESHOLD_": "1099511627776", "MALLOC_MMAP_MAX_": "0"}


def snippet(value: str) -> str:
    """The lines of ``env`` in a launch configuration."""
    lines = ",\n".join(f'  "{name}": "{setting}"' for name, setting in _VARIABLES.items())
    return f'"env": {{\n{lines}\n}}\n'


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Always refused: the script runs after glibc has read its environment, so no edit can set them."""
    settings = " ".join(f"{name}={setting}" for name, setting in _VARIABLES.items())
    raise RewriteRefused(
        f"The script's own code runs too late: set {settings} in the environment or the launch configuration",
        file=context.profile.script,
    )
