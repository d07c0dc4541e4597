"""Foreign text, made safe for display on a terminal.

Names of files, modules, kernels and hosts, and lines of source, come from other people's files. A terminal interprets
some of their characters as commands: to set colours and titles, to move the cursor, to send its contents as input.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Control characters except tab and newline, and characters that change the text direction. They have zero width, so a
# layout with them is also correct without them.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def cleaned(text: str) -> str:
    """The text without characters that a terminal interprets or that change the display order."""
    return _CONTROLS.sub("", text)


def clean_console(**options: object) -> Console:
    """A rich console that sends only rich's own commands to the terminal; takes the arguments of ``Console``."""
    from collections.abc import Iterable
    from typing import Any, cast

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class CleanConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            """Render like rich, without the commands inside the text."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(cleaned(segment.text), segment.style)

    return CleanConsole(**cast("dict[str, Any]", options))
