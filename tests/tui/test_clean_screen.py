"""Text of others commands no terminal from the terminal UI either."""

from __future__ import annotations

from pathlib import Path

from rich.segment import Segment
from textual.color import Color

from skyline_tui.clean_screen import CleanText
from skyline_tui.pick import PickApp

HOSTILE = "\x1b[2J\x9b31m\u202e"


def test_segments_are_cleaned_and_keep_their_room() -> None:
    before = [Segment("plain "), Segment(f"a{HOSTILE}b")]
    after = CleanText().apply(before, Color(0, 0, 0))
    assert [segment.text for segment in after] == ["plain ", "a[2J31mb"]
    assert sum(one.cell_length for one in after) == sum(one.cell_length for one in before)


async def test_the_names_of_scripts(tmp_path: Path) -> None:
    """Every line that is drawn, as it would be written to the terminal."""
    script = tmp_path / f"train{HOSTILE}[bold].py"
    script.write_text("")
    app = PickApp(tmp_path, [script])
    async with app.run_test() as pilot:
        await pilot.pause()
        drawn = [segment.text for strip in app.screen._compositor.render_strips() for segment in strip]
    text = "".join(drawn)
    assert "train[2J31m[bold].py" in text
    assert text.isprintable()
