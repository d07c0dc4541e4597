"""The load of the machine while a run is watched, by a clock and counters that the test sets."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import psutil
import pytest

from skyline.capture.child.watching import window
from skyline.watch import run_load
from skyline.watch.run_load import RunLoadMeter, family_s


@dataclass
class Counters:
    """Seconds: of the clock, of this thread, of the whole machine, of the watcher, and of the run."""

    now_s: float = 100.0
    thread_s: float = 0.0
    busy_s: float = 0.0
    watcher_s: float = 0.0
    run_s: float | None = 0.0
    cost_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def thread_time(self) -> float:
        return self.thread_s

    def process_time(self) -> float:
        return self.watcher_s

    def run(self) -> float | None:
        self.thread_s += self.cost_s
        return self.run_s


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    made = Counters()
    monkeypatch.setattr(run_load, "time", made)
    monkeypatch.setattr(run_load, "busy_s", lambda: made.busy_s)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    return made


def test_others_are_what_is_neither_the_run_nor_the_watcher(counters: Counters) -> None:
    meter = RunLoadMeter(counters.run)
    assert meter.read() is None
    counters.now_s, counters.busy_s, counters.run_s, counters.watcher_s = 102.0, 5.0, 1.0, 0.5
    load = meter.read()
    assert load is not None
    assert (load.own_cores, load.others_cores, load.cores) == (0.5, 1.75, 4)
    counters.now_s, counters.busy_s = 103.0, 8.0
    load = meter.read()
    assert load is not None
    assert (load.own_cores, load.others_cores) == (0, 3)


def test_readings_take_a_small_share_of_a_processor(counters: Counters) -> None:
    """A reading of 10 ms is the fifth of a hundredth of five seconds."""
    meter = RunLoadMeter(counters.run)
    counters.cost_s = 0.01
    read = 0
    for _ in range(200):
        counters.now_s += 0.1
        before = counters.thread_s
        meter.read()
        read += counters.thread_s > before
    assert read == 4
    assert counters.thread_s / 20 == pytest.approx(0.002)


@pytest.mark.parametrize("run_s", [None, -1.0, 50.0])
def test_a_part_of_the_run_that_is_not_known_gives_no_load(counters: Counters, run_s: float | None) -> None:
    """The process has ended, or its time has gone over to no other, or to one at once."""
    meter = RunLoadMeter(counters.run)
    meter.read()
    counters.now_s, counters.run_s = 101.0, run_s
    assert meter.read() is None


ENDED_CHILD = """
import os, time
if (child := os.fork()) == 0:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    os._exit(0)
os.waitpid(child, 0)
counted = os.times()
print(sum(counted[:4]), flush=True)
input()
"""


def test_the_family_has_the_time_of_those_that_ended() -> None:
    command = [sys.executable, "-c", ENDED_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        counted_s = float(run.stdout.readline())
        used_s = family_s(run.pid)
        run.communicate("\n")
    assert counted_s > 0.15
    assert used_s == pytest.approx(counted_s, abs=0.05)
    assert family_s(run.pid) is None


@pytest.mark.parametrize(
    ("text", "delay_s"), [("83745 2500000000 2\n", 2.5), ("0 0 0\n", None), ("", None), (None, None)]
)
def test_the_delay_of_a_thread_is_that_of_the_scheduler(
    tmp_path, monkeypatch: pytest.MonkeyPatch, text: str | None, delay_s: float | None
) -> None:
    path = tmp_path / "schedstat"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(window, "_STATISTICS", str(path))
    assert window.delayed_s() == delay_s
