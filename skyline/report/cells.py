"""Places in a notebook as its reader sees them: ``In [7]:3`` for a line of the script made of its cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any, TypeVar

from skyline.errors import SkylineError
from skyline.source.cells import CellLine, cell_lines, is_notebook, left_out
from skyline.source.text import SourceText
from skyline.trace.profile import Profile, SourceFile

Report = TypeVar("Report")

_PLACE = re.compile(r"(?P<file>[^\s\"'`(]*\.ipynb)(?P<closing>\"?)(?::|,? line )(?P<line>\d+)")
_BARE = re.compile(
    r"(?<!\.py )(?<!\.py, )(?<!\", )(?P<on>\bon )?\blines? (?P<numbers>\d+(?:(?:, | and )\d+)*)(?!\d)"
)
_NUMBER = re.compile(r"\d+")
_BLANK = re.compile(r"[\s\"'`(]")
_Places = dict[str, tuple[CellLine | None, ...]]


@lru_cache(maxsize=16)
def _places_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for lines of these files in a text; a folder before a name contains no blanks."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    file = rf"(?P<file>(?:[^\s\"'`(]*/)?(?<![^\s\"'`(/])(?:{known}))"
    return re.compile(rf"{file}(?P<closing>\"?)(?::|,? line )(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class CellPlaces:
    """The places of all lines of some notebooks, by file name, since one file may have several paths.

    ``only`` is the notebook if a profile has no other source: then every line number in a text is a line of
    it. ``paths`` are known paths of the notebooks; in a text, only these paths and the names may contain
    blanks.
    """

    places: _Places
    only: str = ""
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, sources: Iterable[SourceFile]) -> CellPlaces:
        """The notebooks among the sources of a profile."""
        every = tuple(sources)
        found = {PurePath(source.path).name: source.text for source in every if is_notebook(source.path)}
        only = next(iter(found), "") if len(every) == 1 else ""
        paths = tuple(source.path for source in every if is_notebook(source.path))
        return cls({name: cell_lines(text) for name, text in found.items()}, only, paths)

    def at(self, file: str, line: int) -> CellLine | None:
        """The place of a line. None if it is not in a cell of these notebooks."""
        lines = self.places.get(PurePath(file).name, ()) if is_notebook(file) else ()
        return lines[line - 1] if 1 <= line <= len(lines) else None

    def told(self, text: str) -> str:
        """The text with places such as ``train.ipynb:12`` replaced by cells."""
        named = text
        if self.places and ".ipynb" in text:
            named = _places_of((*self.paths, *self.places)).sub(self._told, text)
        return _BARE.sub(self._told_bare, named) if self.only else named

    def _told_bare(self, found: re.Match[str]) -> str:
        places = {number: self.at(self.only, int(number)) for number in _NUMBER.findall(found["numbers"])}
        if None in places.values():
            return found[0]
        at = "at " if found["on"] else ""
        return at + _NUMBER.sub(lambda number: str(places[number[0]]), found["numbers"])

    def _told(self, found: re.Match[str]) -> str:
        place = self.at(found["file"], int(found["line"]))
        if place is None:
            return found[0]
        # The form of tracebacks: File "train.ipynb", line 12
        return f'{found["file"]}", {place}' if found["closing"] else str(place)

    def fill(self, value: Any) -> Any:
        """The report with the cell of every place in it."""
        if type(value) is str:
            return self.told(value)
        if isinstance(value, tuple):
            return tuple(map(self.fill, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changes: dict[str, Any] = {}
        for field in fields(value):
            before = getattr(value, field.name)
            after = self.fill(before)
            if after is not before:
                changes[field.name] = after
        if hasattr(value, "cell"):
            place = self.at(value.file, value.line)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
            changes["cell"] = str(place) if place is not None else ""
        return replace(value, **changes) if changes else value


def with_cells(report: Report, profile: Profile) -> Report:
    """The report of a profile; for a notebook, with the cell of every place, and with cells in its texts."""
    places = CellPlaces.of(profile.sources)
    return places.fill(report) if places.places else report


def by_cells(profile: Profile) -> Profile:
    """The profile for an export: its lines in notebooks have the names of their cells."""
    places = CellPlaces.of(profile.sources)
    if not places.places:
        return profile
    lines = tuple(
        replace(line, file=f"In [{place.cell}]", line=place.line)
        if (place := places.at(line.file, line.line)) is not None
        else line
        for line in profile.trace.lines
    )
    return replace(profile, trace=replace(profile.trace, lines=lines))


def told_in_cells(text: str) -> str:
    """A message with its places in notebooks as cells; the notebooks are read from disk."""
    found: dict[str, str] = {}
    for match in _PLACE.finditer(text):
        for file in _possible_files(text, match):
            try:
                found[file] = SourceText.read(file).text
            except SkylineError:
                continue
            break
    sources = [SourceFile(file, "", script) for file, script in found.items()]
    return CellPlaces.of(sources).told(text)


def _possible_files(text: str, match: re.Match[str]) -> Iterator[str]:
    """The files that a text may name before a line number: up to the nearest blank, then with more text before."""
    file = match["file"]
    yield file
    for before in reversed(list(_BLANK.finditer(text, 0, match.start("file")))):
        file = text[before.end() : match.end("file")]
        if "\n" in file:
            return
        yield file
    yield text[: match.end("file")]


def notebook_notes(profile: Profile) -> tuple[str, ...]:
    """A note on the lines of a notebook that were not run, since only IPython understands them."""
    left = [
        entry for source in profile.sources if is_notebook(source.path) for entry in left_out(source.text)
    ]
    if not left:
        return ()
    shown = ", ".join(f"{place} {_shortened(words)}" for place, words in left[:_MOST_SHOWN])
    more = f", and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    return (f"Not run, because only IPython supports it: {shown}{more}.",)


_MOST_SHOWN = 4
_LONGEST = 40


def _shortened(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
