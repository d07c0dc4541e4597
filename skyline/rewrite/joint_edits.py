"""All the edits that a question asks for, combined, and the parts of it that are refused."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import ReadText, RewriteContext
from skyline.rewrite.registry import entries, entry_named
from skyline.source.cells import cells_of, is_notebook
from skyline.source.text import SourceText, TextEdit
from skyline.trace.profile import Profile
from skyline.whatif.question import Question
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import Subject


class Analysed(Protocol):
    """The part of an analysis that rewriting needs."""

    @property
    def profile(self) -> Profile:
        """The measurement."""
        ...

    @property
    def baseline(self) -> Subject:
        """The facts from which a what-if chooses its default value."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of the question that is not rewritten, and the reason; ``snippet`` is code to write by hand."""

    name: str
    reason: str
    snippet: str = ""


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """Edits that can be made together, in the order of file and place, and the refused parts."""

    edits: tuple[TextEdit, ...]
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    """Consequences of the changes that the person must know, such as the new start command or the new batch."""


def plan(analysis: Analysed, question: Question, read: ReadText) -> RewritePlan:
    """The edits for a question; ``read`` gives the present text of a file.

    Rewrites run in their own order, not in the order of the question, each on the text that the previous ones
    left. The edits apply to the present texts. Parts are refused one by one, each with its reason; the plan
    contains no edits of a refused part.
    """
    asked = [("batch_size", str(question.batch_size))] if question.batch_size is not None else []
    asked += [(choice.name, choice.value) for choice in question.choices]

    def default(name: str) -> str:
        # The code gets exactly the value that was predicted.
        return whatifs()[name].detect(analysis.baseline).default if name in whatifs() else ""

    def without_value(name: str) -> str:
        found = whatifs()[name].detect(analysis.baseline) if name in whatifs() else None
        return "" if found is None or found.applicable else found.reason

    return carry_out(RewriteContext(analysis.profile, read), asked, default, without_value)


def carry_out(
    context: RewriteContext,
    asked: Sequence[tuple[str, str]],
    default: Callable[[str], str] = lambda name: "",
    without_value: Callable[[str], str] = lambda name: "",
) -> RewritePlan:
    """The edits for changes by name and value, see ``plan``; ``default`` gives a missing value.

    ``without_value`` gives the reason why there is no default value, or an empty text.
    """
    order = {name: index for index, name in enumerate(entries())}
    refused: dict[int, Refused] = {}
    done: set[str] = set()
    notes: list[str] = []
    for index, (name, value) in sorted(enumerate(asked), key=lambda part: order.get(part[1][0], -1)):
        try:
            entry = entry_named(name)
            if entry is None:
                raise RewriteRefused("There is no rewrite for this yet", hint="Make the change by hand.")
            if name in done:
                raise RewriteRefused("It is given twice, with different values")
            wanted = value or default(name)
            made = entry.carried_out(context, wanted)
            note = entry.notes if made.edits() != context.edits() else entry.notes_unchanged
            if note is not None:
                notes += note(context.again(), wanted)
            context = made
            done.add(name)
        except SkylineError as error:
            needs_value = isinstance(error, UsageError) and not value
            if needs_value and (reason := without_value(name)):
                refused[index] = Refused(name, f"{reason[:1].upper()}{reason[1:]}.")
                continue
            hint = f" {error.hint}" if error.hint else ""
            refused[index] = Refused(
                name, f"{error.message.rstrip('.')}.{hint}", _snippet(error, name, value)
            )
    return RewritePlan(context.edits(), tuple(refused[index] for index in sorted(refused)), tuple(notes))


def _snippet(error: SkylineError, name: str, value: str) -> str:
    entry = entry_named(name)
    own = error.snippet if isinstance(error, RewriteRefused) else ""
    if own or entry is None or entry.snippet is None:
        return own
    try:
        return entry.snippet(value)
    except SkylineError:  # there is no code for an invalid value
        return ""


def diff(planned: RewritePlan, read: ReadText, folder: str | None = None) -> str:
    """The edits of a plan as one unified diff, with newlines as in the files.

    Paths are relative to ``folder`` (None: the working directory) for files in it, so that the diff applies there.
    """
    folder = os.getcwd() if folder is None else folder
    parts: list[str] = []
    for path in dict.fromkeys(edit.span.file for edit in planned.edits):
        before = read(path)
        after = before.apply(edit for edit in planned.edits if edit.span.file == path)
        inside = path.startswith(os.path.join(folder, ""))
        label = (os.path.relpath(path, folder) if inside else path).replace("\\", "/").lstrip("/")
        parts += (
            _compared(before.text, after.text, label)
            if not is_notebook(path)
            else _by_cell(before, after, label)
        )
    return "".join(parts)


def _by_cell(before: SourceText, after: SourceText, label: str) -> Iterator[str]:
    """The changes of each cell, with the cell's line numbers."""
    cells = zip(cells_of(before.text), cells_of(after.text), strict=True)
    for number, (old, new) in enumerate(cells, 1):
        if old != new:
            yield from _compared(f"{old}\n", f"{new}\n", f"{label} In [{number}]")


def _compared(before: str, after: str, label: str) -> Iterator[str]:
    for line in difflib.unified_diff(_lines(before), _lines(after), f"a/{label}", f"b/{label}"):
        yield line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if line]
