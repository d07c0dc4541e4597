"""Facts about a run that are reported before it has produced anything."""

from __future__ import annotations

import pytest

from skyline.capture.early_facts import from_source
from skyline.source.batch_size import find
from skyline.source.text import SourceText

SETTINGS = "@dataclass\nclass Settings:\n    batch_size: int = 8\n"
LOADER = "loader = DataLoader(data, batch_size=settings.batch_size)\n"


@pytest.mark.parametrize(
    ("source", "batch_size"),
    [
        (SETTINGS + "settings = Settings(batch_size=16)\n" + LOADER, 16),
        (SETTINGS + "settings = Settings(**read())\n" + LOADER, None),
        ("B = 16\nloader = DataLoader(data, B)\n", 16),
        ("loader = DataLoader(data, read())\n", None),
    ],
)
def test_a_default_that_a_run_may_override_is_not_told(source: str, batch_size: int | None) -> None:
    text = SourceText.of("/project/train.py", source)
    assert from_source(text, find(text, (), lambda path: None)).batch_size == batch_size
