"""Locates the batch size in the current text of a file and reads its value."""

from __future__ import annotations

import re

from skyline.lazy_dataclass import dataclass
from skyline.report.schema import KnobReport, ProfileReport
from skyline.source.knob import KnobKind, SettingPlace
from skyline.source.line_map import line_map
from skyline.source.setting_names import is_batch_name
from skyline.source.settings_file import entry_now
from skyline.source.text import SourceSpan, SourceText

_NAME = re.compile(r"(?:--)?[^\W\d]\w*(?:-\w+)*")
_NUMBER = r"(\d\w*)"


@dataclass(frozen=True, slots=True)
class BatchSizePlace:
    """The literal, including the name before it on the same line, if any. ``value`` is the effective batch size."""

    span: SourceSpan
    value: int


def batch_size_place(
    report: ProfileReport, profiled: SourceText | None, text: SourceText
) -> BatchSizePlace | None:
    """The place of the batch size in ``text``, the current text of the file profiled as ``profiled``.

    None if the file does not set the batch size, or if more than the number changed in its line. The text of a
    settings file is not in the profile, so the place is found by its key there.
    """
    batch = report.batch_size
    knob, lives = batch.knob, batch.lives
    if lives is not None and lives.file == text.path:
        return _in_settings(lives, text)
    if knob is None or batch.value is None or knob.file != text.path or profiled is None:
        return None
    line = line_map(profiled.text, text.text)(knob.line)
    if line is not None:
        return _place(text, line, knob.column, knob.end_column, batch.value)
    return _with_another_number(knob, profiled, text)


def _in_settings(lives: SettingPlace, text: SourceText) -> BatchSizePlace | None:
    entry = entry_now(lives, text.text)
    value = entry.whole_number if entry is not None else None
    if entry is None or not value:
        return None
    return _place(text, entry.line, entry.column, entry.column + len(entry.text), value)


def _with_another_number(knob: KnobReport, profiled: SourceText, text: SourceText) -> BatchSizePlace | None:
    """The line that equals the profiled one apart from the number, nearest to its expected place."""
    if knob.kind == KnobKind.COMMAND_LINE.value:
        return None
    before = profiled.line(knob.line)
    likeness = re.compile(
        rf"{re.escape(before[: knob.column])}{_NUMBER}{re.escape(before[knob.end_column :].rstrip())}\s*"
    )
    wanted = line_map(profiled.text, text.text).nearest(knob.line)
    for line in sorted(range(1, text.line_count + 1), key=lambda line: abs(line - wanted)):
        found = likeness.fullmatch(text.line(line))
        value = _number(found[1]) if found else None
        if found and value:
            return _place(text, line, knob.column, found.end(1), value)
    return None


def _place(text: SourceText, line: int, start: int, end: int, value: int) -> BatchSizePlace:
    names = [name.start() for name in _NAME.finditer(text.line(line)[:start]) if is_batch_name(name[0])]
    return BatchSizePlace(SourceSpan(text.path, line, min([*names[-1:], start]), line, end), value)


def _number(literal: str) -> int | None:
    try:
        return int(literal, 0)
    except ValueError:
        return None
