"""What a rewrite may look at: the profile, and the sources as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from skyline.errors import RewriteRefused, SkylineError
from skyline.source.program import Module, Program
from skyline.source.resolver import Resolver
from skyline.source.text import SourceText
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine

ReadText = Callable[[str], SourceText]
"""Gives the present text of a file; raises UsageError where there is none."""


class RewriteContext:
    """The profile and the program it was made from; the program is read and parsed on first use."""

    def __init__(self, profile: Profile, read: ReadText) -> None:
        self.profile = profile
        self._read = read
        self._texts: dict[str, SourceText] = {}
        self._resolver: Resolver | None = None

    def text(self, path: str) -> SourceText:
        """The present text of a file, one text for all the names that it may have."""
        # A run tells real paths, a person names links; two texts of one file would be edited apart.
        real = os.path.realpath(path)
        if real not in self._texts:
            self._texts[real] = self._read(path)
        return self._texts[real]

    def text_or_none(self, path: Path) -> SourceText | None:
        """The present text of a file, None where it cannot be read."""
        try:
            return self.text(str(path))
        except SkylineError:
            return None

    def as_profiled(self) -> bool:
        """Whether every source reads now as it did when it was profiled."""
        for source in self.profile.sources:
            text = self.text_or_none(Path(source.path))
            if text is None or text.text != source.text:
                return False
        return True

    @property
    def resolver(self) -> Resolver:
        """The program as it stands now, ready to be searched."""
        if self._resolver is None:
            program = Program(self.text(self.profile.script), lambda path: self.text(str(path)))
            self._resolver = Resolver(program)
        return self._resolver

    def module(self, path: str) -> Module:
        """One file of the program; raises RewriteRefused where it cannot be read or parsed."""
        program = self.resolver.program
        real = os.path.realpath(path)
        known = (each for each in program.modules if os.path.realpath(each.path) == real)
        module = next(known, None) or program.open(Path(path))
        if module is None:
            raise RewriteRefused(f"{path} cannot be read as Python", file=path)
        return module

    def unchanged(self, place: CodeLine) -> Module:
        """The file of a line that the run told of; raises RewriteRefused where the line is not what it was."""
        module, real = self.module(place.file), os.path.realpath(place.file)
        profiled = next(
            (source for source in self.profile.sources if os.path.realpath(source.path) == real), None
        )
        if profiled is not None:
            before = SourceText.of(profiled.path, profiled.text).line(place.line)
            if module.source.line(place.line) != before:
                message = f"The file changed: line {place.line} is no longer what was profiled"
                raise RewriteRefused(message, file=place.file, line=place.line, hint="Profile it again.")
        return module
