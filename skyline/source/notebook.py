"""A Jupyter notebook on disk: its code as one script, and a changed script written back into its cells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from skyline.errors import RewriteRefused, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.cells import cells_of, headings, script_of

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_VERSION = 4


@dataclass(frozen=True, slots=True)
class Notebook:
    """The text of the file and the sources of its code cells, without blank cells, which Jupyter does not run."""

    path: str
    text: str
    cells: tuple[str, ...]

    @classmethod
    def parse(cls, path: str, data: bytes) -> Notebook:
        """Reads a notebook of any version; raises UsageError if it is no notebook, or not in Python."""
        try:
            text = data.decode("utf-8")
            content = json.loads(text)
            if content["nbformat"] < _VERSION:
                content = _converted(path, text)
            sources = [_joined(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
            language = _language(content["metadata"])
        except UsageError:
            raise
        except Exception as error:  # nbformat raises exceptions of any kind
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise UsageError(
                f"{path} is damaged or not a notebook: {reason}", hint="Open it in Jupyter and save it again."
            ) from error
        if not language.lower().startswith(("python", "ipython")):
            raise UsageError(f"{path} is a notebook in {language}, not in Python")
        made = cls(path, text, tuple(source for source in sources if source.strip()))
        if not made.cells:
            raise UsageError(f"{path} has no code cells")
        if cells_of(made.script()) != made.cells:
            raise UsageError(
                f"{path} has a cell with a comment of the form “# In [1]” or “# IPython:”, which Skyline uses itself",
                hint="Reword the comment.",
            )
        return made

    def script(self) -> str:
        """The code of all cells, in order."""
        return script_of(self.cells)

    def with_script(self, script: str) -> bytes:
        """The file with a changed script; only the sources of the changed cells differ.

        Raises RewriteRefused if the change is not inside cells.
        """
        cells = cells_of(script)
        before = self.script()
        if script == before:
            return self.text.encode("utf-8")
        if headings(script) != headings(before) or headings(script_of(cells)) != headings(before):
            raise RewriteRefused("The change would reach across cells of the notebook", file=self.path)
        if _lines_of_code(script_of(cells)) != _lines_of_code(script):
            raise RewriteRefused("The change would touch a line with a command of IPython", file=self.path)
        places = [place for place in _sources(self.text) if place.source.strip()]
        if tuple(place.source for place in places) != self.cells:
            raise RewriteRefused(
                "The notebook is in a format that cannot be written",
                file=self.path,
                hint="Open it in Jupyter and save it again.",
            )
        ascii_only = self.text.isascii() and "\\u" in self.text
        pieces: list[str] = []
        done = 0
        for place, cell in zip(places, cells, strict=True):
            if cell != place.source:
                pieces += (self.text[done : place.start], _encoded(self.text, place, cell, ascii_only))
                done = place.end
        return "".join((*pieces, self.text[done:])).encode("utf-8")


@dataclass(frozen=True, slots=True)
class _Source:
    """The value of a code cell's ``source`` in the text of the file."""

    source: str
    start: int
    end: int


def _converted(path: str, text: str) -> Any:
    """The content of an old notebook in the present format; nbformat has no types."""
    try:
        from nbformat import converter, reader
    except ImportError:
        raise UsageError(
            f"{path} is a notebook of an old format, which nbformat reads",
            hint="Save it in Jupyter, or install nbformat next to Skyline: pip install 'skyline-profiler[notebook]'",
        ) from None
    modules: Any = converter, reader
    return modules[0].convert(modules[1].reads(text), _VERSION)


def _joined(source: Any) -> str:
    """A source as one text; files contain a text or a list of lines."""
    return source if isinstance(source, str) else "".join(source)


def _language(metadata: Any) -> str:
    named = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language")
    return str(named or "python")


def _lines_of_code(script: str) -> list[str]:
    """The lines without headings, since text before the first heading may have moved below it."""
    known = set(headings(script))
    return [line for line in script.split("\n") if line not in known]


def _sources(text: str) -> Iterator[_Source]:
    """The sources of all code cells of a notebook of version 4."""
    for key, _, start, _ in _entries(text, _after_space(text, 0)):
        if key != "cells":
            continue
        for _, cell, place, _ in _entries(text, start):
            if _kind(cell) != "code":
                continue
            for name, value, first, last in _entries(text, place):
                if name == "source":
                    yield _Source(_joined(value), first, last)


def _kind(cell: Any) -> str:
    return str(cell["cell_type"]) if type(cell) is dict else ""  # pyright: ignore[reportUnknownArgumentType]


def _entries(text: str, at: int) -> Iterator[tuple[str, Any, int, int]]:
    """The entries of the JSON object or array at a position: key, value, start and end of the value."""
    closing = {"{": "}", "[": "]"}.get(text[at : at + 1])
    if closing is None:
        return
    at = _after_space(text, at + 1)
    while text[at] != closing:
        key = ""
        if closing == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield key, value, at, end
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _encoded(text: str, place: _Source, source: str, ascii_only: bool) -> str:
    """A source in the form of the file's old one: a string or a list of lines, with the same layout."""

    def quoted(words: str) -> str:
        return json.dumps(words, ensure_ascii=ascii_only)

    if text[place.start] != "[":
        return quoted(source)
    items = [(value, start, end) for _, value, start, end in _entries(text, place.start)]
    if len(items) == 1 and "\n" in items[0][0].removesuffix("\n"):
        # Sphinx-Gallery writes a cell as one item.
        return text[place.start : items[0][1]] + quoted(source) + text[items[0][2] : place.end]
    known = {value: text[start:end] for value, start, end in items}
    opening, closing = text[place.start : items[0][1]], text[items[-1][2] : place.end]
    between = text[items[0][2] : items[1][1]] if len(items) > 1 else f",{opening[1:] or ' '}"
    lines = (known.get(line) or quoted(line) for line in source.splitlines(keepends=True))
    return opening + between.join(lines) + closing
