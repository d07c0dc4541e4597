from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types

from skyline_lsp import convert
from skyline_lsp.texts import Texts


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "train.py"
    path.write_text("x = 1\n")
    return path


def text_of(texts: Texts, path: Path) -> str | None:
    current = texts.current(str(path))
    return current.text if current else None


def test_a_file_nobody_opened_is_read_from_disk_and_again_when_it_changes(script: Path) -> None:
    texts = Texts()
    assert text_of(texts, script) == "x = 1\n"
    script.write_text("x = 22\n")
    assert text_of(texts, script) == "x = 22\n"
    script.unlink()
    assert text_of(texts, script) is None


def test_a_changed_buffer_counts_over_the_disk(script: Path) -> None:
    texts = Texts()
    uri = convert.uri_of(str(script))
    texts.opened(uri, 1, "x = 1\n")
    assert list(texts.unsaved()) == []
    texts.changed(uri, 2, [types.TextDocumentContentChangeWholeDocument("x = 3\n")])
    assert text_of(texts, script) == "x = 3\n"
    assert [text.text for text in texts.unsaved()] == ["x = 3\n"]
    assert texts.at(str(script)) is not None
    texts.closed(uri)
    assert text_of(texts, script) == "x = 1\n"


def test_an_untouched_buffer_gives_way_to_a_newer_disk_for_a_run_but_not_for_an_edit(script: Path) -> None:
    texts = Texts()
    texts.opened(convert.uri_of(str(script)), 1, "x = 1\n")
    script.write_text("x = 22\n")
    assert text_of(texts, script) == "x = 22\n"
    shown = texts.shown(str(script))
    assert shown is not None
    assert shown.text == "x = 1\n"


def test_a_buffer_opened_with_other_text_is_unsaved_until_it_is_saved(script: Path) -> None:
    texts = Texts()
    uri = convert.uri_of(str(script))
    texts.opened(uri, 1, "x = 9\n")
    assert text_of(texts, script) == "x = 9\n"
    script.write_text("x = 9\n")
    texts.saved(uri)
    assert list(texts.unsaved()) == []


def test_a_uri_may_be_spelled_in_more_than_one_way(script: Path) -> None:
    texts = Texts()
    texts.opened(convert.uri_of(str(script)).replace("train", "tr%61in"), 1, "x = 9\n")
    assert texts.document(convert.uri_of(str(script))) is not None


def test_what_is_no_local_file_is_ignored() -> None:
    texts = Texts()
    texts.opened("untitled:Untitled-1", 1, "x = 1")
    assert list(texts.unsaved()) == []
