"""Copies of the examples that run as long as they are measured."""

from __future__ import annotations

import shlex
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LONGER = {
    '"--epochs", type=int, default=2': '"--epochs", type=int, default=200',
    "epochs: int = 3": "epochs: int = 300",
}


def long_examples(folder: Path) -> list[str]:
    """Copies of the examples with more epochs. The originals end after seconds and would be restarted many times."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(EXAMPLES.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for short, long in LONGER.items():
            text = text.replace(short, long)
        (folder / path.name).write_text(text, encoding="utf-8")
    return [shlex.quote(str(path)) for path in sorted(folder.glob("*.py"))]
