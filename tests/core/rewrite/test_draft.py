"""Several rewrites, each on the text of the one before, come out as edits of the original."""

from __future__ import annotations

from types import ModuleType

import pytest

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteDraft
from skyline.rewrite.registry import RewriteEntry, entries
from skyline.source.text import SourceText, TextEdit

TEXT = "a = 1\r\nb = 2\r\n\tc = 3\r\n"


def edit(draft: RewriteDraft, line: int, start: int, end: int, text: str) -> TextEdit:
    source = draft.text
    return source.edit(source.span(source.offset(line, start), source.offset(line, end)), text)


def test_edits_of_edits_are_edits_of_the_original() -> None:
    draft = RewriteDraft.of(SourceText.of("x.py", TEXT))
    draft = draft.edited([edit(draft, 2, 4, 5, "20"), edit(draft, 1, 0, 0, "z = 0\r\n")])
    draft = draft.edited([edit(draft, 3, 6, 6, "  # in between"), edit(draft, 1, 5, 5, "0")])
    draft = draft.edited([edit(draft, 3, 0, 1, "")])
    assert draft.text.text == "z = 00\r\na = 1\r\n = 20  # in between\r\n\tc = 3\r\n"
    made = draft.edits()
    assert draft.original.apply(made).text == draft.text.text
    assert [(each.old_text, each.new_text) for each in made] == [
        ("", "z = 00\r\n"),
        ("b", ""),
        ("2", "20  # in between"),
    ]
    assert [draft.line(number) for number in (1, 2, 3, 4)] == [2, None, 4, None]


def test_nothing_done_is_no_edit() -> None:
    draft = RewriteDraft.of(SourceText.of("x.py", TEXT))
    assert (
        draft.edits() == draft.edited([]).edits() == draft.edited([edit(draft, 1, 0, 1, "a")]).edits() == ()
    )
    same = edit(draft, 1, 0, 0, "import b\r\n")
    assert draft.edited([same, same]).text.text == "import b\r\n" + TEXT


def test_what_another_wrote_is_not_replaced() -> None:
    draft = RewriteDraft.of(SourceText.of("x.py", TEXT))
    draft = draft.edited([edit(draft, 1, 4, 5, "10")])
    with pytest.raises(RewriteRefused, match="same text"):
        draft.edited([edit(draft, 1, 4, 6, "12")])
    with pytest.raises(RewriteRefused, match="same text"):
        draft.edited([edit(draft, 2, 0, 3, ""), edit(draft, 2, 1, 2, "")])


def test_the_registry_takes_modules_that_bind_both_names() -> None:
    module = ModuleType("their_rewrite")
    assert RewriteEntry.of(module) is None
    module.NAME, module.rewrite, module.ORDER = "theirs", lambda context, value: (), 7  # type: ignore[attr-defined]
    entry = RewriteEntry.of(module)
    assert entry is not None
    assert (entry.name, entry.order, entry.snippet) == ("theirs", 7, None)
    assert next(iter(entries())) == "batch_size"
