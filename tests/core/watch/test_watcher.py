"""The watcher: what it reports, when again, and what it does about it."""

from __future__ import annotations

import importlib.util
import json
import math
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from skyline.cli.main import main
from skyline.entry_points import Addition, Installed
from skyline.errors import UsageError
from skyline.settings.pyproject import project_settings, watch_settings_of
from skyline.trace.facts import MachineLoad
from skyline.watch.actions import Actions
from skyline.watch.course import Course
from skyline.watch.diary import Diary, entries
from skyline.watch.records import Line, Start, Window, parsed
from skyline.watch.registry import known_rules, lacking, made_rules
from skyline.watch.rule import Alert, WatchRule
from skyline.watch.watch_report import watch_report
from skyline.watch.watcher import Watcher


def _beside(name: str):
    spec = importlib.util.spec_from_file_location(f"watch_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


windows = _beside("streams").windows


@dataclass(frozen=True)
class Broken:
    def check(self, course: Course) -> Alert | None:
        raise RuntimeError("no luck")


@dataclass
class Heard:
    said: list[str] = field(default_factory=list)
    commands: list[tuple[int, dict[str, object]]] = field(default_factory=list)

    def watcher(
        self, rules: dict[str, WatchRule], actions: Actions | None = None, path: Path | None = None
    ) -> Watcher:
        diary = Diary(path, ["python", "train.py"])
        return Watcher(
            rules, diary, actions or Actions(), self.said.append, lambda *one: self.commands.append(one)
        )


@pytest.fixture
def heard() -> Heard:
    return Heard()


def begin(watcher: Watcher, process: int = 0, rank: int = 0) -> None:
    watcher.hear(process, Start(process=1, rank=rank))
    watcher.hear(process, Line("loader", "/elsewhere/train.py", 7, "main"))


def test_an_alert_is_said_once_with_its_place_and_evidence(heard: Heard, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    watcher = heard.watcher(made_rules({}, ""), path=history)
    begin(watcher)
    for window in windows(30, wait_s=0.4):
        watcher.hear(0, window)
    watcher.end(0)
    (told,) = heard.said
    first, second = told.splitlines()
    assert "iteration 500: loader_stalls: the loop waits for data 80 % of the time" in first
    assert first.endswith("train.py:7)")
    assert second.startswith("    8.00 ms per batch")
    assert "loader_stalls" in watcher.status()
    kinds = [entry.get("kind") for entry in entries(history)]
    assert kinds.count("alert") == 1
    assert kinds[-1] == "end"


def test_an_alert_that_ends_is_noted(heard: Heard, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    watcher = heard.watcher(made_rules({}, ""), path=history)
    begin(watcher)
    for window in windows(60, wait_s=lambda n: 0.4 if n < 15 else 0.0):
        watcher.hear(0, window)
    watcher.end(0)
    assert [entry["rule"] for entry in entries(history) if entry.get("kind") == "over"] == ["loader_stalls"]
    assert "loader_stalls" not in watcher.status()


def test_a_rule_that_fails_is_left_out_and_the_others_go_on(heard: Heard) -> None:
    watcher = heard.watcher({"broken": Broken(), **made_rules({}, "")})
    begin(watcher)
    for window in windows(12, wait_s=0.4):
        watcher.hear(0, window)
    assert heard.said[0] == "skyline watch: rule broken is left out: RuntimeError: no luck"
    assert "loader_stalls" in heard.said[1]


class Clock:
    """The time, which a test sets."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("skyline.watch.watcher.time", made)
    return made


def hear_on_a_busy_machine(watcher: Watcher, clock: Clock, count: int, **fields: object) -> None:
    """Other programs take 1.6 of two cores from the 40th window on; the load is read with each window."""
    begin(watcher)
    for number, window in enumerate(windows(count, **fields)):
        clock.now_s = window.at_s
        others = 0.1 if number < 40 else 1.6
        watcher.load = lambda others=others: MachineLoad(0.4, others, 2)
        watcher.hear(0, window)
        watcher.read_host()


def test_a_busy_machine_is_noted_once_and_starts_no_action(
    heard: Heard, clock: Clock, tmp_path: Path
) -> None:
    history = tmp_path / "history.jsonl"
    rules = {"throughput_falls": made_rules({}, "")["throughput_falls"]}
    actions = Actions(stop_on=frozenset(rules), profile_on=frozenset(rules), beside=tmp_path / "run")
    watcher = heard.watcher(rules, actions, history)
    hear_on_a_busy_machine(
        watcher,
        clock,
        100,
        seconds=lambda n: 0.5 if n < 42 else 0.9,
        delayed_s=lambda n: 0.0 if n < 42 else 0.4,
        processor_s=0.3,
    )
    watcher.end(0)
    (told,) = heard.said
    first, second, third = told.splitlines()
    assert first.endswith(": note: other programs take 80 % of the machine")
    # Half of the last windows are slow by then.
    assert second == "    iterations take 14.0 ms, 40 % more than before"
    assert third == "    without the time that other programs took: 10.0 ms, 10.0 ms before"
    assert (watcher.alerts, heard.commands) == (0, [])
    assert "alerts: 0" in watcher.status()
    (note,) = (entry for entry in entries(history) if entry.get("kind") == "note")
    assert (note["rule"], note["title"]) == ("throughput_falls", "other programs take 80 % of the machine")
    report = watch_report("a.jsonl", list(entries(history)), 0.0, ())
    assert report.alerts == ()
    (message,) = report.messages
    assert message.startswith(f"iteration {note['iteration']}: other programs take 80 % of the machine; iter")


def test_a_slower_training_on_a_busy_machine_is_an_alert(heard: Heard, clock: Clock) -> None:
    watcher = heard.watcher({"throughput_falls": made_rules({}, "")["throughput_falls"]})
    hear_on_a_busy_machine(
        watcher,
        clock,
        100,
        seconds=lambda n: 0.5 if n < 42 else 1.1,
        delayed_s=lambda n: 0.0 if n < 42 else 0.2,
        processor_s=0.3,
    )
    (told,) = heard.said
    assert ": throughput_falls: iterations take " in told
    assert told.splitlines()[-1] == "    other programs take 80 % of the machine"
    assert watcher.alerts == 1


def test_a_stop_is_asked_of_every_rank_once(heard: Heard, tmp_path: Path) -> None:
    actions = Actions(
        stop_on=frozenset({"loss_not_finite"}),
        profile_on=frozenset({"loss_not_finite"}),
        beside=tmp_path / "run",
    )
    watcher = heard.watcher(made_rules({}, ""), actions)
    begin(watcher)
    begin(watcher, 1, rank=1)
    for window in windows(3, loss=math.nan, largest_loss=math.nan):
        watcher.hear(1, window)
        watcher.hear(0, window)
    stops = [(number, command) for number, command in heard.commands if command["do"] == "stop"]
    assert stops == [
        (0, {"do": "stop", "checkpoint": None}),
        (1, {"do": "stop", "checkpoint": f"{tmp_path}/run-stopped-rank1-50.pt"}),
    ]
    profiles = [number for number, command in heard.commands if command["do"] == "profile"]
    assert profiles == [1, 0]


def test_a_webhook_gets_the_alert(heard: Heard) -> None:
    received: list[dict[str, object]] = []
    arrived = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        watcher = heard.watcher(
            made_rules({}, ""), Actions(webhook=f"http://127.0.0.1:{server.server_port}/")
        )
        begin(watcher)
        for window in windows(12, wait_s=0.4):
            watcher.hear(0, window)
        assert arrived.wait(30)
    assert received[0]["rule"] == "loader_stalls"
    assert received[0]["line"] == 7


def test_a_command_that_fails_is_reported(heard: Heard, tmp_path: Path) -> None:
    done = threading.Event()
    heard.said = _Noting(done)
    watcher = heard.watcher(made_rules({}, ""), Actions(notify=str(tmp_path / "missing")))
    begin(watcher)
    for window in windows(12, wait_s=0.4):
        watcher.hear(0, window)
    assert done.wait(30)
    assert "No such file" in heard.said[-1]


def test_the_end_waits_for_a_command_under_way(heard: Heard, tmp_path: Path) -> None:
    tell, enough, told = tmp_path / "tell.py", tmp_path / "enough", tmp_path / "told"
    tell.write_text(
        "import os, sys, time\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "open(sys.argv[2], 'w').write('told')\n"
    )
    actions = Actions(notify=shlex.join(map(str, (sys.executable, tell, enough, told))))
    watcher = heard.watcher(made_rules({}, ""), actions)
    begin(watcher)
    for window in windows(12, wait_s=0.4):
        watcher.hear(0, window)
    assert not actions.finish(0.1), "it waits for a file"
    enough.touch()
    assert actions.finish(60.0)
    assert told.read_text() == "told"


class _Noting(list[str]):
    def __init__(self, done: threading.Event) -> None:
        super().__init__()
        self._done = done

    def append(self, message: str) -> None:
        super().append(message)
        if "missing" in message:
            self._done.set()


def test_records_with_nan_are_read() -> None:
    line = b'{"kind":"window","iteration":3,"iterations":1,"seconds":0.5,"typical_s":0.5,"loss":NaN,"new":1}'
    record = parsed(line)
    assert isinstance(record, Window)
    assert record.loss is not None
    assert math.isnan(record.loss)


@pytest.mark.parametrize("line", [b"", b"[]", b'{"kind":"other"}', b'{"kind":"window"}', b"\xff"])
def test_anything_else_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        parsed(line)


def test_a_plugin_must_be_a_rule() -> None:
    @dataclass(frozen=True)
    class NoDefault:
        share: float

        def check(self, course: Course) -> Alert | None: ...

    assert lacking(Broken) == ""
    assert lacking(Broken()) == "it is not a dataclass"
    assert lacking(NoDefault) == "a threshold has no default"


TABLE = """
[tool.skyline.watch]
off = ["dead_units"]
overhead = 0.01
[tool.skyline.watch.loader_stalls]
share = 0.5
"""


def test_the_project_sets_thresholds(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    settings, thresholds, where = watch_settings_of(tmp_path)
    assert (settings.off, settings.overhead) == (("dead_units",), 0.01)
    assert made_rules(thresholds, where)["loader_stalls"].share == 0.5  # type: ignore[attr-defined]
    source = project_settings(tmp_path)
    assert source is not None
    assert source.problems == ()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[tool.skyline.watch]\nofff = []", "offf is not known here"),
        ("[tool.skyline.watch]\noverhead = 2", "overhead does not fit"),
        ("[tool.skyline.watch.loader_stall]\nshare = 1", "There is no rule 'loader_stall'"),
        ("[tool.skyline.watch.loader_stalls]\nshares = 1", "loader_stalls has no threshold 'shares'"),
        ("[tool.skyline.watch.loader_stalls]\nshare = 'x'", "Expected `float`, got `str`".replace("`", "")),
    ],
)
def test_mistakes_in_the_table_are_named(tmp_path: Path, table: str, problem: str) -> None:
    (tmp_path / "pyproject.toml").write_text(table)
    with pytest.raises(UsageError, match=problem.replace("'", ".")):
        made_rules(*watch_settings_of(tmp_path)[1:])


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(("watch", *arguments))
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_usage_errors_start_nothing(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    for arguments, told in (
        ((), "There is no script to watch"),
        (("missing.py",), "There is no file missing.py"),
        (("train.ipynb",), "A notebook cannot be watched"),
        (("--stop-on", "nothing", "train.py"), "There is no rule 'nothing'"),
        (("--set", "loader_stalls", "train.py"), "no threshold"),
        (("--set", "loader_stalls.share=x", "train.py"), "'x' is not a number"),
        (("--webhook", "localhost", "train.py"), "is not an address"),
        (("--overhead", "2", "train.py"), "--overhead must be a share"),
        (("--history", "missing/../train.py/x", "train.py"), "cannot be written"),
        (("no-such-launcher", "train.py"), "no program no-such-launcher"),
    ):
        code, _, err = command(*arguments)
        assert (code, told in err) == (2, True), (arguments, err)
    assert not (tmp_path / "ran").exists()


def test_a_program_without_training_says_so(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:]); sys.exit(9)")
    code, out, err = command("train.py", "--set", "x")
    assert (code, out) == (9, "['--set', 'x']\n")
    assert "no training iteration was seen" in err


def test_a_history_is_shown(
    command: Callable[..., tuple[int, str, str]], heard: Heard, tmp_path: Path
) -> None:
    watcher = heard.watcher(made_rules({}, ""), path=tmp_path / "history.jsonl")
    begin(watcher)
    for window in windows(12, wait_s=0.4, loss=lambda n: 1.0 / (n + 1), largest_loss=1.0):
        watcher.hear(0, window)
    watcher.hear(0, Window(650, 50, 0.5, 0.01, loss=math.nan, largest_loss=math.nan))
    assert command("--show", "history.jsonl")[1].endswith(
        "no end recorded: the run continues, or the watcher was killed\n"
    )
    watcher.end(1)
    code, out, _ = command("--show", "history.jsonl")
    assert code == 0
    assert out.startswith("python train.py, started 2")
    assert "loader_stalls: the loop waits for data 80 % of the time (/elsewhere/train.py:7)" in out
    assert "loss_not_finite: the loss is nan" in out
    assert "iteration 650  10.0 ms  loss nan" in out
    assert out.rstrip().endswith("end: exit code 1, alerts: 2")


def test_another_file_is_not_shown(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": "skyline.profile/1"}')
    code, _, err = command("--show", "other.json")
    assert code == 2
    assert "is not a history of skyline watch" in err


@pytest.fixture
def with_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Other packages declare these rules as entry points."""

    def declare(**classes: type) -> None:
        additions = tuple(Addition(f"{name} (from extra)", kind) for name, kind in classes.items())
        monkeypatch.setattr("skyline.watch.registry.installed", lambda *_: Installed(additions, ()))
        known_rules.cache_clear()

    yield declare
    known_rules.cache_clear()


def test_other_packages_add_rules(with_plugins: Callable[..., None]) -> None:
    @dataclass(frozen=True)
    class Often:
        share: float = 0.9

        def check(self, course: Course) -> Alert | None:
            return None

    with_plugins(often=Often, loader_stalls=Often)
    rules = made_rules({"often": {"share": 0.2}}, "")
    assert rules["often"] == Often(0.2)
    assert not isinstance(rules["loader_stalls"], Often)
    assert known_rules().problems == (
        "loader_stalls (from extra) is left out: there is a rule 'loader_stalls' already",
    )
