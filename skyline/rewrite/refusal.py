"""A refusal that names its place in the code."""

from __future__ import annotations

from typing import Protocol

from skyline.errors import RewriteRefused


class _File(Protocol):
    @property
    def path(self) -> str: ...


class _Placed(Protocol):
    @property
    def lineno(self) -> int: ...


def refusal(
    message: str, module: _File, node: _Placed, *, hint: str = "", snippet: str = ""
) -> RewriteRefused:
    """The error for a change that is not safe because of ``node``."""
    return RewriteRefused(message, file=module.path, line=node.lineno, hint=hint, snippet=snippet)
