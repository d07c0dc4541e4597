"""The verdict on a step, as sentences, and the change that they recommend."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The verdict, which the user reads first.

    ``bound`` says what the step waits for, ``advice`` which change helps most. ``choice`` is that change as
    the user types it, None if no change is recommended. ``rewritten`` is True if Skyline can make it in the
    code. ``file`` and ``line`` are the place with the largest part of the bound; the file is empty if none is
    known.
    """

    bound: str
    advice: str
    choice: str | None = None
    rewritten: bool = False
    file: str = ""
    line: int = 0
    obstacle: str = ""
    """The reason why Skyline cannot make the change. Empty if it can, or if there is no source."""
    caution: str = ""
    """The reason why the figures need care, such as a busy machine. Empty if they do not."""
    cell: str = ""
    """In a notebook, the place as its reader knows it. The report fills it in."""
