"""Writes another batch size where the script sets it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.configured import check_not_forced
from skyline.source.batch_size import find, with_value
from skyline.source.knob import Knob, KnobKind
from skyline.source.setting_names import Setting
from skyline.source.settings_file import setting_edit
from skyline.source.text import TextEdit
from skyline.trace.batch_place import batch_place

NAME = "batch_size"
ORDER = 0
"""First: if the text is not the profiled one, the place of the batch size is searched for again."""

_NOTHING, _NUMBER, _ARGUMENTS = re.compile(r"(?!)"), re.compile(r"\b\d\w*"), re.compile(r"(?s)\(.*")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """The edit of the one literal, or of the one value in a settings file, that sets the batch size."""
    size = _size(value)
    place = batch_place(context.profile)
    knob, setting = place.knob, place.setting
    if setting is not None:
        check_not_forced(Setting.BATCH_SIZE, context.profile.arguments, size)
        return setting_edit(setting, context.text(setting.file), size)
    if knob is None:
        raise RewriteRefused(place.reason, hint="Change it by hand.")
    if knob.kind is KnobKind.COMMAND_LINE:
        raise RewriteRefused(_on_command_line(knob, context.profile.arguments, size), file=knob.span.file)
    knob = _as_it_stands(context, knob)
    edit = with_value(knob, context.text(knob.span.file), size)
    return () if size == knob.value else (edit,)


def _as_it_stands(context: RewriteContext, knob: Knob) -> Knob:
    """The knob in the present text: edits since the profile may have moved it or changed its value.

    The place alone proves nothing, since another number may be there by now. A new search must find the same
    name, reached the same way.
    """
    if context.as_profiled():
        return knob
    found = find(context.text(context.profile.script), context.profile.arguments, context.text_or_none)
    same = _like(knob, found.candidates)
    if len(same) != 1 or found.refusal_of(same[0]):
        message = f"The file changed: {knob.name} is no longer set the way that was profiled"
        raise RewriteRefused(message, file=knob.span.file, line=knob.span.line, hint="Profile it again.")
    return same[0]


def _like(knob: Knob, candidates: Iterable[Knob]) -> list[Knob]:
    """The candidates of the same name and way; if none, numbers and then other arguments may differ."""
    known = [
        candidate
        for candidate in candidates
        if (candidate.name, candidate.kind, candidate.span.file) == (knob.name, knob.kind, knob.span.file)
    ]
    # Earlier rewrites change the calls on the way: the batch size itself, or the workers.
    for ignored in (_NOTHING, _NUMBER, _ARGUMENTS):
        way = [ignored.sub("", step) for step in knob.trail]
        found = [each for each in known if [ignored.sub("", step) for step in each.trail] == way]
        if found:
            return found
    return []


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
