"""Names the environment variables for a launch configuration: glibc reads them when the process starts."""

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
    """No edit of the script can set them: it runs after glibc has read its environment."""
    settings = " ".join(f"{name}={setting}" for name, setting in _VARIABLES.items())
    raise RewriteRefused(
        f"The script's own code runs too late: set {settings} in the environment or the launch configuration",
        file=context.profile.script,
    )
