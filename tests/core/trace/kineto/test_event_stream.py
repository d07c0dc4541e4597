"""Where the text is cut into stretches must not show."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.trace.kineto import event_stream
from skyline.trace.kineto.notes import Notes
from skyline.trace.kineto.window import OPEN, TextWindow, value_end

EVENTS = [
    {"ph": "X", "name": "plain", "ts": 1, "dur": 2},
    {"name": 'brackets in a text: },{"ph": "X"', "args": {"list": [{"a": 1}, {"b": [{}, {}]}, {"c": "},{"}]}},
    {"name": 'escapes \\ \\\\" \u00e9', "args": {}},
    {"name": "", "args": {"correlation": 5, "deep": {"a": {"b": {"c": [[[{"d": 1}, {"e": 2}]]]}}}}},
]


def chunked(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("piece", [1, 7, 64, 5000])
@pytest.mark.parametrize("stretch", [16, 100, 1 << 20])
def test_any_cut_gives_the_same_events(
    monkeypatch: pytest.MonkeyPatch, indent: int | None, piece: int, stretch: int
) -> None:
    monkeypatch.setattr(event_stream, "_LONGEST_STRETCH", stretch)
    monkeypatch.setattr(event_stream, "_SHORTEST_STRETCH", min(stretch, 64))
    text = json.dumps(EVENTS * 9, indent=indent).encode() + b', "after": [{"x": 1}, {"y": 2}]'
    window = TextWindow(chunked(text, piece))
    assert window.skip() == b"["
    window.at += 1
    notes = Notes()
    found = [event for part in event_stream.stretches(window, notes) for event in part]
    assert [event.name for event in found] == [event["name"] for event in EVENTS] * 9
    assert notes.all() == ()
    assert window.skip() == b","


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
))  # fmt: skip
def test_the_end_of_any_value_is_found(value: object) -> None:
    text = json.dumps(value).encode()
    assert value_end(text + b", 5]", 0, last=False) == len(text)
    if text[:1] in b'{["':
        assert value_end(text[:-1], 0, last=True) == OPEN
