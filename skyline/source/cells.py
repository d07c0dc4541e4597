"""The code cells of a notebook as one script: a heading before each cell, and IPython's own syntax as comments.

Only this text is profiled, searched and rewritten. Its lines identify their cells: a saved profile needs no file.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence

from skyline.lazy_dataclass import dataclass

SUFFIX = ".ipynb"
_HEADING = re.compile(r"# In \[(\d+)\]\r?")
_KEPT = "# IPython: "
"""The prefix of a line that only IPython understands."""
_KEPT_LINE = re.compile(rf"(\s*)(?:\S.*?  )?{_KEPT}(.*)", re.DOTALL)
_CELL_MAGIC = re.compile(r"%%(\w+)")
_PYTHON_BODIES = {"capture", "memit", "prun", "skyline", "time", "timeit"}
"""Cell magics whose cell is Python code of the notebook. Cells of other magics are not run."""
_COMMAND = re.compile(r"\s*[!%?].*|\s*[\w.]+\s*\?{1,2}\s*", re.DOTALL)
_ASSIGNED = re.compile(r"(?P<target>[\w.,\s]+?)\s*=\s*[!%][^=].*", re.DOTALL)
_TIMED = re.compile(r"%(?:time|timeit|prun)\s+(?:-\w+\s*\d*\s+)*(?P<statement>[^\s-].*)", re.DOTALL)
_FUTURE = re.compile(r"from __future__ import [^(]+")
_MOST_COMMANDS = 200


@dataclass(frozen=True, slots=True)
class CellLine:
    """A line of a code cell; cells count from 1 as "Restart and run all" numbers them."""

    cell: int
    line: int

    def __str__(self) -> str:
        return f"In [{self.cell}]:{self.line}"


def is_notebook(path: str | os.PathLike[str]) -> bool:
    """True if a path names a Jupyter notebook."""
    return os.fspath(path).endswith(SUFFIX)


def script_of(cells: Sequence[str]) -> str:
    """The cells as one script, with one line of the script per line of a cell."""
    parts: list[str] = []
    begun = False
    for number, cell in enumerate(cells, 1):
        code = _as_python(cell, begun=begun)
        begun = begun or any(line.strip() and not line.strip().startswith("#") for line in code.split("\n"))
        parts.append(f"# In [{number}]\n{code}\n")
    return "".join(parts)


def cells_of(script: str) -> tuple[str, ...]:
    """The cells of a script as in the notebook; text before the first heading belongs to the first cell."""
    cells: list[list[str]] = []
    before: list[str] = []
    for line in script.removesuffix("\n").split("\n"):
        if _HEADING.fullmatch(line):
            cells.append([])
        else:
            kept = _KEPT_LINE.fullmatch(line)
            (cells[-1] if cells else before).append(f"{kept[1]}{kept[2]}" if kept else line)
    if cells:
        cells[0][:0] = before
    return tuple("\n".join(lines) for lines in cells)


def headings(script: str) -> tuple[str, ...]:
    """The headings of the cells in order."""
    return tuple(line for line in script.split("\n") if _HEADING.fullmatch(line))


def cell_lines(script: str) -> tuple[CellLine | None, ...]:
    """The place of each line of the script. None for a heading, and before the first one."""
    found: list[CellLine | None] = []
    cell, line = 0, 0
    for text in script.split("\n"):
        heading = _HEADING.fullmatch(text)
        cell, line = (int(heading[1]), 0) if heading else (cell, line + 1)
        found.append(CellLine(cell, line) if cell and line else None)
    return tuple(found)


def cell_line(script: str, line: int) -> CellLine | None:
    """The place of one line of the script. None outside the cells."""
    places = cell_lines(script)
    return places[line - 1] if 1 <= line <= len(places) else None


def left_out(script: str) -> Iterator[tuple[CellLine, str]]:
    """The lines that are not run, with their text in the notebook; for a cell that is not run, its first."""
    skipped, continued = 0, False
    for text, place in zip(script.split("\n"), cell_lines(script), strict=True):
        kept = _KEPT_LINE.fullmatch(text)
        if kept is None or place is None:
            continued = False
            continue
        words, magic = kept[2].strip(), _CELL_MAGIC.match(kept[2])
        runs = magic[1] in _PYTHON_BODIES if magic else bool(_TIMED.fullmatch(words))
        if not runs and not continued and place.cell != skipped:
            yield place, words
        if magic and not runs:
            skipped = place.cell
        continued = words.endswith("\\")


def _as_python(cell: str, *, begun: bool) -> str:
    """A cell as Python; ``begun`` is True if statements came before it."""
    lines = cell.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    magic = _CELL_MAGIC.match(lines[first])
    if magic is not None and magic[1] not in _PYTHON_BODIES:
        return "\n".join(_KEPT + line for line in lines)
    if magic is not None:
        lines[first] = _KEPT + lines[first]
    if begun:
        # Python accepts these imports only at the start of a file, a notebook in every cell.
        lines = [_KEPT + line if _FUTURE.fullmatch(line) else line for line in lines]
    for _ in range(_MOST_COMMANDS):
        wrong = _wrong_line(lines)
        at = next((at for at in range(wrong - 1, -1, -1) if _is_command(lines[at])), None)
        if at is None:
            break
        _keep(lines, at)
    return "\n".join(lines)


def _wrong_line(lines: Iterable[str]) -> int:
    """The line of the first syntax error; 0 if there is none."""
    text = "\n".join(lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return min(error.lineno or 1, text.count("\n") + 1)
    except (ValueError, RecursionError, MemoryError):
        return 0
    return 0


def _is_command(line: str) -> bool:
    return bool(_COMMAND.fullmatch(line) or _ASSIGNED.fullmatch(line.strip()))


def _keep(lines: list[str], at: int) -> None:
    """Turns a command, with its continuation lines, into comments after code that replaces it."""
    words = lines[at].lstrip()
    indent = lines[at][: len(lines[at]) - len(words)]
    timed, assigned = _TIMED.fullmatch(words), _ASSIGNED.fullmatch(words)
    if timed:
        code = f"{timed['statement'].rstrip()}  "
    elif assigned:
        code = f"{assigned['target']} = []  "
    else:
        code = "pass  " if indent else ""
    lines[at] = f"{indent}{code}{_KEPT}{words}"
    while lines[at].rstrip().endswith("\\") and at + 1 < len(lines):
        at += 1
        lines[at] = _KEPT + lines[at]
