from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.source.text import SourceText
from skyline.source.written_change import WrittenChange, counterpart

LOADER = """\
import torch

loader = DataLoader(data, batch_size=32, shuffle=True)
for x in loader:
    y = net(x)
    loss = f(y)
    loss.backward()
"""


def written(before: str, *replacements: tuple[str, str]) -> WrittenChange:
    """The change that replaces each of these, once, where it first stands."""
    source = SourceText.of("a.py", before)
    edits = []
    for old, new in replacements:
        at = before.index(old)
        edits.append(source.edit(source.span(at, at + len(old)), new))
    return WrittenChange.of(source, edits)


def without(change: WrittenChange, now: str) -> str | None:
    text = SourceText.of("a.py", now)
    edits = change.taken_out(text)
    return None if edits is None else text.apply(edits).text


BATCH = written(LOADER, ("32", "64"))
AUTOCAST = written(
    LOADER,
    ("    y = net", '    with torch.autocast("cpu"):\n        y = net'),
    ("    loss = f", "        loss = f"),
)


@pytest.mark.parametrize("change", [BATCH, AUTOCAST])
def test_it_knows_the_text_before_and_after(change: WrittenChange) -> None:
    assert change.before == LOADER
    assert without(change, change.after) == LOADER
    assert change.is_in(change.after)
    assert not change.is_in(LOADER)
    assert change.is_undone_in(LOADER)
    assert not change.is_undone_in(change.after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "import torch\nimport os\n"),
        ("import torch\n", "# A comment.\n\nimport torch\n"),
        ("shuffle=True", "shuffle=False, num_workers=2"),
        ("loss.backward()", "loss.backward()\n    step()"),
        ("DataLoader", "Loader"),
        ("for x in loader", "for z in loader"),
    ],
)
@pytest.mark.parametrize("change", [BATCH, AUTOCAST])
def test_it_comes_out_after_other_edits(change: WrittenChange, old: str, new: str) -> None:
    now = change.after.replace(old, new, 1)
    assert change.is_in(now)
    assert without(change, now) == LOADER.replace(old, new, 1)


def test_it_comes_out_after_a_formatter() -> None:
    one_line = "DataLoader(data, batch_size={}, shuffle=True)"
    many_lines = "DataLoader(\n    data,\n    batch_size={},\n    shuffle=True,\n)"
    now = BATCH.after.replace(one_line.format(64), many_lines.format(64))
    assert BATCH.is_in(now)
    assert without(BATCH, now) == LOADER.replace(one_line.format(32), many_lines.format(32))


def test_a_keyword_comes_out_beside_one_that_came_later() -> None:
    fused = written("Adam(model.parameters(), lr=1)\n", ("lr=1", "lr=1, fused=True"))
    assert without(fused, fused.after.replace("fused=True", "fused=True, eps=2")) == (
        "Adam(model.parameters(), lr=1, eps=2)\n"
    )


@pytest.mark.parametrize("text", ["96", "batch", ""])
def test_a_place_that_was_edited_is_left_alone(text: str) -> None:
    now = BATCH.after.replace("64", text)
    assert not BATCH.is_in(now)
    assert without(BATCH, now) is None
    assert not BATCH.is_undone_in(now)


def test_what_would_not_be_python_any_more_stays() -> None:
    # A line that was added inside the block would keep its deeper indentation.
    now = AUTOCAST.after.replace("        loss = f(y)\n", "        loss = f(y)\n        show(loss)\n")
    assert without(AUTOCAST, now) is None


def test_an_undo_beside_other_edits_is_seen() -> None:
    assert BATCH.is_undone_in("# First.\n" + LOADER)
    assert AUTOCAST.is_undone_in(LOADER.replace("32", "48"))


def test_a_change_over_a_change() -> None:
    second = written(BATCH.after, ("64", "128"))
    assert not BATCH.is_in(second.after)
    assert without(second, second.after) == BATCH.after


def test_where_a_number_stands_now() -> None:
    start = LOADER.index("32")

    def now(text: str) -> str | None:
        place = counterpart(LOADER, text, start, start + 2)
        return None if place is None else text[place[0] : place[1]]

    assert now(LOADER) == "32"
    assert now(LOADER.replace("32", "512").replace("import torch", "import torch, os")) == "512"
    assert now(LOADER.replace("32", "2 * n")) == "2 * n"
    assert now(LOADER.replace("32", "")) is None


@given(st.text("ab c(,)\n", max_size=30), st.text("ab c(,)\n", max_size=6), st.data())
def test_any_change_is_known_in_its_own_texts(before: str, new: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, len(before)))
    source = SourceText.of("a.txt", before)
    change = WrittenChange.of(source, [source.edit(source.span(start, end), new)])
    assert change.before == before
    assert without(change, change.after) == before
