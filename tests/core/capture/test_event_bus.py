"""Calls of several processes of one run, taken at one place."""

from __future__ import annotations

import errno
import json
import os
import secrets
import signal
import socket
import threading
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import pytest

from skyline.capture.event_bus import EventBus


def call(board: EventBus, key: bytes) -> Connection:
    return Client(board.address, authkey=key)


def tell(line: Connection, event: str) -> None:
    line.send_bytes(json.dumps({"event": event}).encode())


def next_event(board: EventBus) -> str:
    for _ in range(50):
        found = board.next_event(0.1)
        if found is not None:
            return str(found["event"])
    raise TimeoutError


def test_events_come_from_all_and_commands_go_to_the_last_that_called(tmp_path: Path) -> None:
    key = secrets.token_bytes(16)
    board = EventBus(key, tmp_path)
    try:
        assert not board.wait_for_call(0.01)
        first = call(board, key)
        assert board.wait_for_call(5)
        tell(first, "hello")
        assert next_event(board) == "hello"

        second = call(board, key)
        tell(second, "adopted")
        assert next_event(board) == "adopted"
        board.send({"do": "run"})
        assert json.loads(second.recv_bytes()) == {"do": "run"}
        tell(first, "finished")
        assert next_event(board) == "finished"

        second.close()
        assert board.next_event(1) is None
        first.close()
        with pytest.raises(EOFError):
            board.next_event(1)
    finally:
        board.close()
    # A run is ended where it failed, and again where it was begun.
    board.close()
    assert list(tmp_path.iterdir()) == []


def test_a_caller_with_another_key_is_turned_away(tmp_path: Path) -> None:
    key = secrets.token_bytes(16)
    board = EventBus(key, tmp_path)
    try:
        with pytest.raises(Exception, match="digest"):
            call(board, secrets.token_bytes(16))
        call(board, key).close()
        assert board.wait_for_call(5)
    finally:
        board.close()


def test_it_closes_where_no_descriptor_is_left_to_take_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def accept(_: Listener) -> Connection:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Listener, "accept", accept)
    board = EventBus(secrets.token_bytes(16), tmp_path)
    closing = threading.Thread(target=board.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system interrupts no call after a time")
def test_a_second_ctrl_c_while_it_closes_leaves_no_socket(tmp_path: Path) -> None:
    board = EventBus(secrets.token_bytes(16), tmp_path)
    address = Path(board.address)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    # A caller that says nothing keeps the bus waiting for its name, so that the end of the thread is awaited.
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(board.address)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                board.close()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
    assert not address.exists()
