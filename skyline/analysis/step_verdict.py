"""The verdict on a step, as sentences and the change that they name."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The first thing that a person reads.

    ``bound`` says what the step waits for, ``advice`` which change helps most. ``choice`` is that change as the user
    types it, None where no change is recommended. ``rewritten`` is True if Skyline can make it in the code. ``file``
    and ``line`` are the place with the largest part of the bound; the file is empty where none is known.
    """

    bound: str
    advice: str
    choice: str | None = None
    rewritten: bool = False
    file: str = ""
    line: int = 0
    obstacle: str = ""
    """Why Skyline cannot make the change; empty where it can, or where there is no source."""
    caution: str = ""
    """Why the figures need care, such as a busy machine; empty where they do not."""
    cell: str = ""
    """In a notebook the place as its reader knows it; filled in by the report."""
