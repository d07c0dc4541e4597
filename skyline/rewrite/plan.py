"""All the edits that a question asks for, together, and the parts of it that are refused."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from typing import Protocol

from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.rewrite.context import ReadText, RewriteContext
from skyline.rewrite.registry import rewrites
from skyline.source.edit import TextEdit
from skyline.source.syntax import parse
from skyline.trace.profile import Profile
from skyline.whatif.baseline import Baseline
from skyline.whatif.question import Question
from skyline.whatif.registry import whatifs


class Analysed(Protocol):
    """The part of an analysis that rewriting needs."""

    @property
    def profile(self) -> Profile:
        """What was measured."""
        ...

    @property
    def baseline(self) -> Baseline:
        """What a what-if chooses its default value by."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """A part of the question that is not rewritten, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """Edits that can be made together, in the order of file and place, and what is left out."""

    edits: tuple[TextEdit, ...]
    refused: tuple[Refused, ...] = ()

    def diff(self, read: ReadText) -> str:
        """The edits as a unified diff."""
        return diff(self, read)


def plan(analysis: Analysed, question: Question, read: ReadText) -> RewritePlan:
    """The edits for a question; ``read`` gives the present text of a file.

    Parts are refused one by one, each with its reason; none of the edits of a refused part are in the plan.
    """
    context = RewriteContext(analysis.profile, read)
    asked = [("batch_size", str(question.batch_size))] if question.batch_size is not None else []
    asked += [(choice.name, choice.value) for choice in question.choices]
    edits: tuple[TextEdit, ...] = ()
    refused: list[Refused] = []
    for name, value in asked:
        try:
            edits = _joined(context, edits, _edits(context, analysis, name, value))
        except SkylineError as error:
            hint = f" {error.hint}" if error.hint else ""
            refused.append(Refused(name, f"{error.message.rstrip('.')}.{hint}"))
    return RewritePlan(edits, tuple(refused))


def attempt(profile: Profile, name: str, value: str, read: ReadText) -> tuple[TextEdit, ...] | None:
    """The edits for one change with its value given; None where no rewrite for it exists.

    Raises RewriteRefused with the reason where there is one that cannot be carried out here.
    """
    if name not in rewrites():
        return None
    context = RewriteContext(profile, read)
    return _joined(context, (), rewrites()[name](context, value))


def diff(planned: RewritePlan, read: ReadText, folder: str | None = None) -> str:
    """The edits of a plan as one unified diff, newlines as in the files.

    Paths are relative to ``folder`` (None: the working directory) for files in it, so that the diff applies there.
    """
    folder = os.getcwd() if folder is None else folder
    parts: list[str] = []
    for path in dict.fromkeys(edit.span.file for edit in planned.edits):
        before = read(path)
        after = before.apply(edit for edit in planned.edits if edit.span.file == path)
        inside = path.startswith(os.path.join(folder, ""))
        label = (os.path.relpath(path, folder) if inside else path).replace("\\", "/").lstrip("/")
        for line in difflib.unified_diff(_lines(before.text), _lines(after.text), f"a/{label}", f"b/{label}"):
            parts.append(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _edits(context: RewriteContext, analysis: Analysed, name: str, value: str) -> tuple[TextEdit, ...]:
    rewrite = rewrites().get(name)
    if rewrite is None:
        raise RewriteRefused("There is no rewrite for this yet", hint="The change has to be made by hand.")
    if not value and name in whatifs():
        # The code gets the very value that was predicted.
        value = whatifs()[name].detect(analysis.baseline).default
    return rewrite(context, value)


def _joined(
    context: RewriteContext, edits: tuple[TextEdit, ...], more: tuple[TextEdit, ...]
) -> tuple[TextEdit, ...]:
    """Both together; raises RewriteRefused where they do not go together or would not leave Python behind."""
    joined = tuple(dict.fromkeys((*edits, *more)))
    # A stable sort: insertions at one place stay in the order in which they were asked for.
    joined = tuple(sorted(joined, key=lambda edit: (edit.span.file, edit.span.line, edit.span.column)))
    for path in dict.fromkeys(edit.span.file for edit in more):
        changed = context.text(path).apply(edit for edit in joined if edit.span.file == path)
        try:
            parse(changed)
        except UsageError as error:
            raise RewriteRefused("The changed file would not be valid Python", file=path) from error
    return joined


def _lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)|(?<=\r)(?!\n)", text) if line]
