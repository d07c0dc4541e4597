from __future__ import annotations

from pathlib import Path

from skyline.source.text import SourceText
from skyline.source.written_change import WrittenChange
from skyline_lsp.journal import Journal, JournalEntry, Read

CODE = "loader = DataLoader(data, batch_size=32)\noptimizer = Adam(model.parameters())\n"


def entry(before: str, old: str, new: str, **what: object) -> JournalEntry:
    source, at = SourceText.of("a.py", before), before.index(old)
    change = WrittenChange.of(source, [source.edit(source.span(at, at + len(old)), new)])
    return JournalEntry(f"{old} to {new}", "p0", (change,), **what)  # type: ignore[arg-type]


def reads(text: str | None) -> Read:
    return lambda path: None if text is None else SourceText.of(path, text)


BATCH = entry(CODE, "32", "64", batch_size=64)
FUSED = entry(BATCH.files[0].after, "parameters()", "parameters(), fused=True", whatifs=("fused_optimizer",))
BOTH = FUSED.files[0].after


def test_an_undone_entry_stays_until_another_change_is_made(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.push("a.py", BATCH, reads(CODE))
    assert journal.in_code("a.py", reads(BATCH.files[0].after)) == (BATCH,)
    assert journal.in_code("a.py", reads(CODE)) == ()
    assert journal.of("a.py", reads(CODE)) == (BATCH,)  # It may be redone in the editor.
    other = entry(CODE, "parameters()", "parameters(), fused=True", whatifs=("fused_optimizer",))
    journal.push("a.py", other, reads(CODE))
    assert journal.of("a.py", reads(CODE)) == (other,)


def test_another_session_takes_up_what_is_in_the_code(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.push("a.py", BATCH, reads(CODE))
    journal.push("a.py", FUSED, reads(BATCH.files[0].after))
    edited = "import os\n" + BOTH
    assert Journal(tmp_path).of("a.py", reads(edited)) == (BATCH, FUSED)
    assert Journal(tmp_path).of("a.py", reads(BATCH.files[0].after)) == (BATCH,)
    assert Journal(tmp_path).of("a.py", reads(None)) == ()
    assert Journal(tmp_path).of("b.py", reads(edited)) == ()


def test_an_entry_comes_out_from_under_a_later_one() -> None:
    edits = BATCH.taken_out(reads(BOTH))
    assert edits is not None
    assert SourceText.of("a.py", BOTH).apply(edits).text == BOTH.replace("64", "32")
    assert BATCH.taken_out(reads(None)) is None


def test_a_damaged_journal_is_as_good_as_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.push("a.py", BATCH, reads(CODE))
    (kept,) = tmp_path.glob("*.json")
    kept.write_text('[{"label": 1}]')
    assert Journal(tmp_path).of("a.py", reads(BATCH.files[0].after)) == ()


def test_a_folder_that_cannot_be_written_costs_no_change(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    journal = Journal(blocked / "changes")
    journal.push("a.py", BATCH, reads(CODE))
    assert journal.of("a.py", reads(CODE)) == (BATCH,)
