from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skyline_lsp.frames import LONGEST_BODY, Frames


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def read(data: bytes, pieces: list[int]) -> list[bytes]:
    """The messages in bytes that come in pieces of these sizes; bodies that are no JSON are reported as broken."""
    frames, found, at = Frames(), [], 0
    for size in [*pieces, len(data)]:
        for body in frames.feed(data[at : at + size]):
            try:
                json.loads(body)
                found.append(body)
            except ValueError:
                frames.broken(body)
        at += size
    return found


BODIES = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5).map(
    lambda values: [json.dumps(value, ensure_ascii=False).encode() for value in values]
)
PIECES = st.lists(st.integers(1, 40), max_size=20)


@given(BODIES, PIECES)
def test_messages_come_whole_however_the_bytes_come(bodies: list[bytes], pieces: list[int]) -> None:
    assert read(b"".join(map(frame, bodies)), pieces) == bodies


@given(BODIES, st.binary(max_size=50), PIECES)
def test_junk_costs_no_message_after_it(bodies: list[bytes], junk: bytes, pieces: list[int]) -> None:
    if b":" not in junk:
        assert read(junk + b"\r\n" + b"".join(map(frame, bodies)), pieces) == bodies


@given(BODIES, st.integers(-40, 25), PIECES)
def test_a_wrong_length_costs_no_message_after_it(bodies: list[bytes], off: int, pieces: list[int]) -> None:
    body = json.dumps({"text": "x" * 50}).encode()
    wrong = b"Content-Length: %d\r\n\r\n%s" % (len(body) + off, body)
    # One that is too long by more than what follows waits for more.
    following = b"".join(map(frame, [b"{}", *bodies, b"{}", b"{}"]))
    found = read(wrong + following, pieces)
    assert found[-len(bodies) - 2 :] == [*bodies, b"{}", b"{}"] or off == 0


def test_headers_are_those_of_http() -> None:
    header = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:2\r\nX: y\r\n\r\n{}"
    assert read(header, []) == [b"{}"]
    assert read(b"Content-Length: 2\n\n{}", []) == [b"{}"]


def test_no_length_makes_it_wait_or_hold_forever() -> None:
    huge = b"Content-Length: %d\r\n\r\n{}" % (LONGEST_BODY + 1)
    absurd = b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}"
    assert read(huge + absurd + frame(b"{}"), []) == [b"{}"]
    frames = Frames()
    for _ in range(100):
        assert list(frames.feed(b"no header at all " * 1000)) == []
    assert len(frames._waiting) < 10_000
