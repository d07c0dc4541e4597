"""Text that Skyline did not write, made safe to be shown on a terminal.

Names of files, modules, kernels and hosts, and lines of source, come out of files of others. A terminal takes some
characters in them as commands: to set colours and titles, to move the cursor, to report what it shows as if typed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# The control characters but for tab and newline, and those that turn the direction in which text is read. None takes
# room on a terminal: what was laid out with them fits without them.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def cleaned(text: str) -> str:
    """The text without what a terminal would obey, or what would show it in another order than it has."""
    return _CONTROLS.sub("", text)


def clean_console(**options: object) -> Console:
    """A console of rich on which the only commands to the terminal are rich's own; takes what ``Console`` takes."""
    from collections.abc import Iterable
    from typing import Any, cast

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """As rich does, without the commands that are in the text itself."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(cleaned(segment.text), segment.style)

    return CleanConsole(**cast("dict[str, Any]", options))
