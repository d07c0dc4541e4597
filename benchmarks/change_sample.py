"""A sample of a script's changes that nobody chose: by a hash of their words."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar

_Change = TypeVar("_Change")


def sampled(script: str, asked: dict[str, _Change], count: int) -> dict[str, _Change]:
    """So many of the changes of a script, which are named by their words; 0 for all."""
    order = sorted(asked, key=lambda words: sha256(f"{script} {words}".encode()).digest())
    return {words: asked[words] for words in order[: count or None]}
