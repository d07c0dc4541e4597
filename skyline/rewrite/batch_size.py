"""Writes another batch size where the script sets it."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.batch_size import with_value
from skyline.source.edit import TextEdit
from skyline.source.knob import Knob, KnobKind

NAME = "batch_size"


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
    edit = with_value(knob, context.text(knob.span.file), size)
    return () if size == knob.value else (edit,)


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
