"""Writes another batch size where the script sets it."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.batch_size import find, with_value
from skyline.source.edit import TextEdit
from skyline.source.knob import Knob, KnobKind

NAME = "batch_size"
ORDER = 0
"""First: its place is searched for again where the text is not the profiled one."""


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """The edit of the one literal that sets the batch size."""
    size = _size(value)
    knobs = context.profile.knobs
    knob = knobs.best
    if knob is None:
        tried = f"; looked for {', '.join(knobs.tried)}" if knobs.tried else ""
        raise RewriteRefused(
            f"No literal that sets the batch size was found{tried}", hint="Change it by hand."
        )
    if knob.kind is KnobKind.COMMAND_LINE:
        raise RewriteRefused(_on_command_line(knob, context.profile.arguments, size), file=knob.span.file)
    if knobs.refusal:
        raise RewriteRefused(knobs.refusal, file=knob.span.file, line=knob.span.line)
    knob = _as_it_stands(context, knob)
    edit = with_value(knob, context.text(knob.span.file), size)
    return () if size == knob.value else (edit,)


def _as_it_stands(context: RewriteContext, knob: Knob) -> Knob:
    """The knob in the text as it reads now: edits since the profile may have moved it or changed its value.

    The place alone proves nothing, since another number may stand there by now: it is searched for again, and
    must be the same name, reached the same way.
    """
    if context.as_profiled():
        return knob
    found = find(context.text(context.profile.script), context.profile.arguments, context.text_or_none)
    same = [
        candidate
        for candidate in found.candidates
        if (candidate.name, candidate.kind, candidate.trail, candidate.span.file)
        == (knob.name, knob.kind, knob.trail, knob.span.file)
    ]
    if len(same) != 1 or found.refusal:
        message = f"The file changed: {knob.name} is no longer set the way that was profiled"
        raise RewriteRefused(message, file=knob.span.file, line=knob.span.line, hint="Profile it again.")
    return same[0]


def _size(value: str) -> int:
    try:
        size = int(value)
    except ValueError:
        size = 0
    if size < 1:
        raise RewriteRefused(f"{value!r} is not a batch size", hint="Give a whole number from 1.")
    return size


def _on_command_line(knob: Knob, arguments: tuple[str, ...], size: int) -> str:
    index = knob.argument_index
    if index is None or index >= len(arguments):
        return f"The command line sets {knob.name}: change it there to {size}"
    entry = arguments[index]
    written = (
        f"{arguments[index - 1]} {entry}"
        if index and not entry.startswith("-") and "=" not in entry
        else entry
    )
    return (
        f"The command line sets it with `{written}`, over what the file says: change that argument to {size}"
    )
