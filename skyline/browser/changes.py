"""Changes of the script that a page requests: shown as a diff, written to the files, and undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from skyline.analysis.analyse import Analysis
from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.report.cells import with_cells
from skyline.report.protocol import QuestionOptions
from skyline.rewrite.joint_edits import Refused, RewritePlan, diff, plan
from skyline.rewrite.removal import removals
from skyline.source.project import check_inside
from skyline.source.text import SourceText
from skyline.whatif.question import Question
from skyline.whole_file import all_or_none

Write = Callable[[Path, bytes], None]
"""Replaces a file in one step. Raises SkylineError if it cannot be written."""


@dataclass(frozen=True, slots=True)
class ChangeOptions(QuestionOptions):
    """A question, and the names of what-ifs to remove from the code."""

    removes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The answer to a page. ``text`` is a message, ``diff`` shows the change; ``written``: it is in the files now."""

    text: str
    diff: str = ""
    written: bool = False


@dataclass(frozen=True, slots=True)
class _Written:
    """A file with its bytes before and after a change."""

    path: Path
    before: bytes
    after: bytes


class Changes:
    """The changes of one script, written by ``write``. Can be used from several threads."""

    def __init__(self, script: Path, write: Write) -> None:
        self._script = script
        self._write = write
        self._lock = threading.Lock()
        self._done: list[tuple[_Written, ...]] = []

    def preview(self, analysis: Analysis, question: Question, removes: Sequence[str] = ()) -> ChangeAnswer:
        """The diff of a change, or the reasons why it cannot be made. Nothing is written."""
        planned = _planned(analysis, question, removes)
        if planned.refused:
            return ChangeAnswer(_refusals(analysis, planned.refused))
        if not planned.edits:
            return ChangeAnswer("The script already has these changes.")
        return ChangeAnswer(" ".join(planned.notes), diff(planned, SourceText.read))

    def apply(self, analysis: Analysis, question: Question, removes: Sequence[str] = ()) -> ChangeAnswer:
        """Make a whole change in the files, or none of it. Raises SkylineError if a file cannot be written."""
        with self._lock:
            planned = _planned(analysis, question, removes)
            if planned.refused:
                return ChangeAnswer(f"Nothing was changed. {_refusals(analysis, planned.refused)}")
            if not planned.edits:
                return ChangeAnswer("Nothing to change: the script already has these changes.")
            files = tuple(dict.fromkeys(edit.span.file for edit in planned.edits))
            # The paths to write come from a profile, which may be part of a folder that somebody else created.
            check_inside(self._script, files)
            shown = diff(planned, SourceText.read)
            texts = [SourceText.read(file) for file in files]
            written = tuple(
                _Written(
                    Path(text.path),
                    Path(text.path).read_bytes(),
                    text.apply(edit for edit in planned.edits if edit.span.file == text.path).encode(),
                )
                for text in texts
            )
            all_or_none(
                (partial(self._write, one.path, one.after), partial(self._write, one.path, one.before))
                for one in written
            )
            self._done.append(written)
            names = ", ".join(one.path.name for one in written)
            return ChangeAnswer(" ".join((f"Written into {names}.", *planned.notes)), shown, written=True)

    def take_back(self) -> ChangeAnswer:
        """Undo the latest change if its files were not edited since."""
        with self._lock:
            if not self._done:
                return ChangeAnswer("There is nothing to undo.")
            latest = self._done[-1]
            for one in latest:
                if one.path.read_bytes() != one.after:
                    raise RewriteRefused(
                        f"{one.path.name} was edited since",
                        file=str(one.path),
                        hint="Undo the change in your editor.",
                    )
            all_or_none(
                (partial(self._write, one.path, one.before), partial(self._write, one.path, one.after))
                for one in latest
            )
            self._done.pop()
            return ChangeAnswer(f"Undone in {', '.join(one.path.name for one in latest)}.")


def _planned(analysis: Analysis, question: Question, removes: Sequence[str]) -> RewritePlan:
    """The edits of the current files that remove what-ifs from the code, then add the what-ifs of the question."""
    if not removes:
        return plan(analysis, question, SourceText.read)
    texts: dict[str, SourceText] = {}

    def read(path: str) -> SourceText:
        return texts.get(path) or SourceText.read(path)

    def made(planned: RewritePlan) -> RewritePlan:
        for path in dict.fromkeys(edit.span.file for edit in planned.edits):
            texts[path] = read(path).apply(edit for edit in planned.edits if edit.span.file == path)
        return planned

    parts = [made(removals(analysis, removes, read)), made(plan(analysis, question, read))]
    before = {path: SourceText.read(path) for path in texts}
    return RewritePlan(
        tuple(
            before[path].difference(now.text) for path, now in texts.items() if now.text != before[path].text
        ),
        tuple(refused for part in parts for refused in part.refused),
        tuple(note for part in parts for note in part.notes),
    )


def _refusals(analysis: Analysis, refused: tuple[Refused, ...]) -> str:
    """Each part that cannot be made, with the reason and the code to write by hand."""
    parts: list[str] = []
    for one in with_cells(refused, analysis.profile):
        by_hand = f"\nCode to insert by hand:\n{one.snippet}" if one.snippet else ""
        parts.append(f"{one.name}: {one.reason}{by_hand}")
    return "\n".join(parts)
