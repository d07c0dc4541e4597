"""How often the screen is drawn."""

from __future__ import annotations

from collections.abc import MutableMapping

FRAMES_PER_S = 240
"""Four times Textual's own: at 60 a drag waits up to 16 ms for its frame before any work is done."""


def set_frame_rate(environment: MutableMapping[str, str]) -> None:
    """Draw so often, unless the person has set another rate; before Textual is imported, which reads it once."""
    environment.setdefault("TEXTUAL_FPS", str(FRAMES_PER_S))
