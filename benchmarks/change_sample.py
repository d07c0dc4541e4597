"""A sample of a script's changes that is selected by a hash of their words, so that nobody chooses it."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar

_Change = TypeVar("_Change")


def sampled(script: str, asked: dict[str, _Change], count: int) -> dict[str, _Change]:
    """A sample of ``count`` changes of a script (0: all). Changes are named by their words."""
    order = sorted(asked, key=lambda words: sha256(f"{script} {words}".encode()).digest())
    return {words: asked[words] for words in order[: count or None]}
