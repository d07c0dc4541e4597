"""The sockets of a run: attached terminals, their requests, and hooks that find a later watcher."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("no Unix sockets", allow_module_level=True)

from skyline.capture.child.watching import stream as hooks
from skyline.errors import UsageError
from skyline.watch.actions import Actions
from skyline.watch.clients import Clients
from skyline.watch.diary import Diary, entries
from skyline.watch.heard_run import HeardRun
from skyline.watch.live_runs import Claim, LiveRun, live_run, live_runs
from skyline.watch.records import Record, Start, Window
from skyline.watch.requests import Requests
from skyline.watch.watcher import Watcher

_spec = importlib.util.spec_from_file_location("watch_streams", Path(__file__).with_name("streams.py"))
assert _spec is not None
assert _spec.loader is not None
streams = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(streams)


class Run(HeardRun):
    """A run that a test listens to turn by turn."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records: list[Record] = []
        self._heard = lambda _, record: self.records.append(record)

    def root(self) -> int:
        return os.getpid()

    def listen(self, heard: object, tick: object) -> None: ...

    def turn(self) -> None:
        while self._take(0.05):
            pass


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the address of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="skyline-watch-", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    made = Run(folder)
    yield made
    made.close()


@pytest.fixture
def clients(run: Run) -> Iterator[Clients]:
    made = Clients(run, lambda: {"name": "train-1"}, lambda asked: {"done": True, "text": f"did {asked}"})
    yield made
    made.close()


@pytest.fixture
def attach(run: Run) -> Iterator[Callable[[], socket.socket]]:
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(10)
        made.connect(run.clients_address)
        opened.append(made)
        run.turn()
        return made

    yield connect
    for one in opened:
        one.close()


def heard(client: socket.socket) -> list[dict[str, Any]]:
    """The messages that have arrived."""
    client.setblocking(False)
    data = b""
    try:
        while part := client.recv(1 << 16):
            data += part
    except BlockingIOError:
        pass
    return [json.loads(line) for line in data.splitlines()]


def is_left_out(client: socket.socket) -> bool:
    """True if the other end is closed; the client may have missed a part of the messages."""
    client.settimeout(10)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def test_nobody_else_may_open_the_sockets(run: Run, clients: Clients) -> None:
    for address in (run.hooks_address, run.clients_address):
        assert stat.S_IMODE(os.stat(address).st_mode) == 0o600


def test_a_client_hears_what_was_before_and_what_comes(clients: Clients, attach: Callable[[], Any]) -> None:
    clients.say("an alert")
    clients.draw("iteration 5")
    client = attach()
    assert heard(client) == [
        {"kind": "run", "name": "train-1"},
        {"kind": "said", "text": "an alert"},
        {"kind": "status", "text": "iteration 5"},
    ]
    clients.draw("iteration 5")
    clients.draw("iteration 6")
    clients.end(3)
    assert heard(client) == [{"kind": "status", "text": "iteration 6"}, {"kind": "end", "exit_code": 3}]


def test_a_client_that_dies_does_no_harm_to_others(
    run: Run, clients: Clients, attach: Callable[[], Any]
) -> None:
    first, second = attach(), attach()
    first.close()
    clients.say("one")
    run.turn()
    clients.say("two")
    assert [one["text"] for one in heard(second)[1:]] == ["one", "two"]
    second.sendall(b'{"ask": "pause"}\n')
    run.turn()
    assert heard(second) == [{"kind": "answer", "done": True, "text": "did pause"}]


def test_a_client_that_does_not_read_is_left_out(
    run: Run, clients: Clients, attach: Callable[[], Any]
) -> None:
    idle, other = attach(), attach()
    for number in range(200):
        clients.say(f"{number} {'x' * 10_000}")
        heard(other)
    run.turn()
    assert is_left_out(idle)
    clients.say("on")
    assert heard(other)[-1]["text"] == "on"


@pytest.mark.parametrize("nonsense", [b"\xff\n", b"[]\n", b'{"do": "stop"}\n', b"x" * 9000])
def test_a_client_that_sends_nonsense_is_left_out(
    nonsense: bytes, run: Run, clients: Clients, attach: Callable[[], Any]
) -> None:
    client = attach()
    client.sendall(nonsense)
    run.turn()
    assert is_left_out(client)


def test_a_later_watcher_hears_what_rules_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_RETRY_S", 0.0)
    first = Run(folder)
    stream = hooks.Stream(first.hooks_address)
    stream.send(kind="start", process=1)
    stream.send(kind="line", site="loader", file="train.py", line=3)
    stream.send(kind="line", site="loader", file="train.py", line=4)
    stream.send(kind="parameters", rows=[{"name": "weight"}])
    for iteration in range(1, 8):
        stream.send(kind="window", iteration=iteration, iterations=1, seconds=0.5, typical_s=0.5)
    stream.send(kind="save", iteration=7, seconds=1.0)
    first.turn()
    assert len(first.records) == 12
    first.close()
    # The run goes on unheard.
    stream.send(kind="window", iteration=8, iterations=1, seconds=0.5, typical_s=0.5)
    stream.send(kind="window", iteration=9, iterations=1, seconds=0.5, typical_s=0.5)
    second = Run(folder)
    stream.send(kind="window", iteration=10, iterations=1, seconds=0.5, typical_s=0.5)
    second.turn()
    stream.close()
    kinds = [type(one).__name__ for one in second.records]
    assert kinds == ["Start", "Line", "Parameters", *["Window"] * 6]
    assert second.records[1].line == 4  # type: ignore[union-attr]
    again = [(one.iteration, one.earlier) for one in second.records if isinstance(one, Window)]
    assert again == [*((number, True) for number in range(1, 6)), (10, False)]
    second.close()


def test_earlier_windows_are_neither_noted_nor_judged(tmp_path: Path) -> None:
    history, said = tmp_path / "history.jsonl", list[str]()
    watcher = Watcher({}, Diary(history, ["python"]), Actions(), said.append, lambda *_: None)
    for window in streams.windows(2, loss=3.0, earlier=True):
        watcher.hear(0, window)
    watcher.hear(0, streams.windows(5, loss=1.0)[-1])
    assert watcher.courses[0].first_losses == [3.0, 3.0, 1.0]
    assert [one["iteration"] for one in entries(history) if one.get("kind") == "course"] == [250]


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    made = Watcher(
        {}, Diary(tmp_path / "h.jsonl", ["python"]), Actions(beside=tmp_path / "h"), str, lambda *_: None
    )
    for process in (0, 1):
        made.hear(process, Start(process=100 + process, rank=1 - process))
        made.hear(process, streams.windows(1)[0])
    return made


def test_requests_act_where_they_are_allowed(watcher: Watcher, tmp_path: Path) -> None:
    paused: list[Any] = []
    commands: list[Any] = []
    went_on: list[None] = []
    watcher.pause, watcher.command = paused.append, lambda *one: commands.append(one)  # type: ignore[assignment]
    requests = Requests(watcher, frozenset({"pause", "profile"}), lambda: went_on.append(None))
    assert requests.answer("pause")["done"]
    assert paused == [[100, 101]]
    assert not went_on
    assert requests.answer("continue")["done"]
    assert requests.answer("profile")["done"]
    # A paused run would not profile.
    assert len(went_on) == 2
    ((number, command),) = commands
    assert number == 1, "the lowest rank"
    assert command["path"] == f"{tmp_path}/h-asked-50.trace.json"
    refused = requests.answer("stop")
    assert not refused["done"]
    assert "--allow stop" in refused["hint"]
    assert not requests.answer("sudo")["done"]
    assert len(commands) == 1
    allowed = Requests(watcher, frozenset({"stop"}), lambda: None)
    assert allowed.answer("stop")["done"]
    assert commands[1:] == [
        (0, {"do": "stop", "checkpoint": None}),
        (1, {"do": "stop", "checkpoint": f"{tmp_path}/h-stopped-50.pt"}),
    ]


def test_a_run_without_an_iteration_refuses(tmp_path: Path) -> None:
    watcher = Watcher({}, Diary(None, []), Actions(), str, lambda *_: None)
    refused = Requests(watcher, frozenset({"pause"}), lambda: None).answer("pause")
    assert (refused["done"], refused["text"]) == (False, "No training iteration was seen yet")


def test_a_history_goes_on_with_its_own_clock(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    header = '{"schema": "skyline.watch/1", "started": "2026-01-02T03:04:05+00:00", "command": []}'
    path.write_text(f'{header}\n{{"kind": "report", "at_s": 5.0, "message": "a"}}\n{{"kind": "cou')
    diary = Diary(path, ["other"], goes_on=True)
    diary.note("report", message="b")
    diary.close()
    kept = list(entries(path))
    assert kept[0]["command"] == []
    assert [one["message"] for one in kept[1:]] == ["a", "b"]
    assert kept[2]["at_s"] > 1000
    path.write_text("{}\n")
    Diary(path, ["other"], goes_on=True).close()
    assert next(entries(path))["command"] == ["other"]


@pytest.fixture
def live(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LiveRun:
    import platform

    import psutil

    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))
    return LiveRun(
        name="train-1",
        command=("python", "train.py"),
        script="/project/train.py",
        project="/project",
        started="2026-01-02T03:04:05+00:00",
        host=platform.node(),
        process=os.getpid(),
        process_started=psutil.Process().create_time(),
        folder=str(folder),
        working_directory="/project",
        options=(),
        history="",
        beside="",
    )


def test_the_right_to_watch_is_free_once_its_owner_is_gone(live: LiveRun) -> None:
    assert live_runs() == []
    claim = Claim.announce(live)
    assert live_runs() == [live]
    assert stat.S_IMODE(live.path.stat().st_mode) == 0o600
    assert Claim.of(live) is None
    claim.release(ended=False)
    again = Claim.of(live)
    assert again is not None
    again.release(ended=True)
    assert live_runs() == []


def test_ended_runs_leave_nothing(live: LiveRun) -> None:
    other = replace(live, name="other-2", host="elsewhere")
    Claim.announce(other).release(ended=False)
    Claim.announce(replace(live, process_started=1.0)).release(ended=False)
    assert live_runs() == []
    assert not live.path.exists()
    assert not Path(live.folder).exists()
    Path(live.folder).mkdir()
    # The run of another machine with the same home directory.
    assert other.path.exists()


def test_the_run_that_is_meant(live: LiveRun) -> None:
    with pytest.raises(UsageError, match="No run is active") as none:
        live_run("")
    assert "skyline watch train.py" in none.value.hint
    claims = [Claim.announce(live)]
    assert live_run("") == live
    second = replace(live, name="train-2", script="/other/train.py", process_started=live.process_started + 1)
    claims.append(Claim.announce(second))
    for asked in ("", "train.py", "train", str(os.getpid())):
        with pytest.raises(UsageError, match="Several runs are active") as several:
            live_run(asked)
        assert "train-2, train-1" in several.value.hint
    assert live_run("train-1") == live
    assert live_run("/other/train.py") == second
    with pytest.raises(UsageError, match=r"There is no active run model\.py"):
        live_run("model.py")
    for claim in claims:
        claim.release(ended=True)
