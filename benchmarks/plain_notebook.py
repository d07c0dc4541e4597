"""A notebook's code as a plain script, for a run without Skyline. It shares no code with Skyline."""

from __future__ import annotations

import json
from pathlib import Path

_NAMES = "display = print\n\n\ndef get_ipython():\n    return None\n\n\n"


def plain_script(notebook: Path) -> str:
    """The code cells one after the other, without IPython's own lines and cells that begin with a magic."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    return _NAMES + "\n".join(_python(cell) for cell in cells if not cell.lstrip().startswith("%%"))


def _python(cell: str) -> str:
    lines: list[str] = []
    for line in cell.splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        # Write pass instead of nothing, because a block must not become empty.
        lines.append(f"{blank}pass" if line.lstrip().startswith(("%", "!")) else line)
    return "\n".join(lines) + "\n"
