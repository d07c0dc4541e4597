"""What-ifs as they are typed, made into a question."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.errors import UsageError
from skyline.whatif.question import BATCH_SIZE, Choice, Question
from skyline.whatif.registry import whatif_named
from skyline.whatif.whole_number import whole_number


def parse_question(names: Sequence[str]) -> Question:
    """``batch_size=64 amp=bf16`` as a question.

    Raises UsageError for what is none, before anything is run for it; the message lists the known names.
    """
    choices = [Choice.parse(name) for name in names]
    for choice in choices:
        whatif_named(choice.name)
    seen: set[str] = set()
    for choice in choices:
        if choice.name in seen:
            raise UsageError(f"{choice.name} is asked for twice", hint="Name each what-if once.")
        seen.add(choice.name)
    sizes = [choice for choice in choices if choice.name == BATCH_SIZE]
    others = tuple(choice for choice in choices if choice.name != BATCH_SIZE)
    return Question(_batch_size(sizes[0].value) if sizes else None, others)


def _batch_size(text: str) -> int:
    if not text.lstrip("+-").isdecimal():
        raise UsageError(f"{text!r} is not a batch size", hint="Write a whole number, as in batch_size=64.")
    return whole_number(BATCH_SIZE, text)
