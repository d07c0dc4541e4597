"""The load of a machine: of a script, of its further processes, and of other programs; nothing while paused."""

import subprocess
import sys

import psutil
import pytest

from skyline.capture import load_meter
from skyline.capture.load_meter import LoadMeter
from skyline.capture.process_family import ProcessFamily, descendants

FAMILY = """
import os, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
for again in range(2):
    if (child := os.fork()) == 0:
        spin(0.3)
        os._exit(0)
    os.waitpid(child, 0)
spin(0.1)
counted = os.times()
print(counted.user + counted.system, counted.children_user + counted.children_system, flush=True)
time.sleep(60)
"""


def test_processes_that_ended_count_as_further_ones():
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as run:
        family = ProcessFamily(run.pid, "none")
        own_s, ended_s = (float(one) for one in run.stdout.readline().split())
        script_s, further_s = family.cpu_s()
        run.kill()
    assert ended_s > 0.5
    assert further_s == pytest.approx(ended_s, abs=0.05)
    assert script_s == pytest.approx(own_s, abs=0.05)


THREE = """
import os, sys, threading, time
def below(depth):
    if depth and os.fork() == 0:
        below(depth - 1)
        time.sleep(60)
# Threads have children of their own.
thread = threading.Thread(target=below, args=(2,))
thread.start()
thread.join()
below(1)
print(flush=True)
time.sleep(60)
"""


def test_all_processes_below_one_are_found_as_in_a_search_of_the_machine():
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", THREE], stdout=subprocess.PIPE, start_new_session=True
    ) as run:
        root = psutil.Process(run.pid)
        run.stdout.readline()
        while len(expected := root.children(recursive=True)) < 3:
            pass
        found = descendants(root)
        for one in (root, *expected):
            one.kill()
    assert set(found) == set(expected)
    assert descendants(root) == []


class _Clock:
    """Seconds of the clock, the machine, the script and its further processes, set by the test."""

    now = (0.0, 0.0, 0.0, 0.0)

    def cpu_s(self):
        return self.now[2:]


@pytest.fixture
def clock(monkeypatch):
    made = _Clock()
    monkeypatch.setattr(load_meter.time, "monotonic", lambda: made.now[0])
    monkeypatch.setattr(load_meter, "busy_s", lambda: made.now[1])
    return made


def test_a_pause_counts_nothing(clock):
    meter = LoadMeter(clock)
    clock.now = (1.0, 2.0, 0.9, 0.3)
    meter.pause()
    clock.now = (9.0, 14.0, 7.0, 0.3)
    meter.go_on()
    clock.now = (10.0, 15.5, 7.9, 0.5)
    load = meter.read()
    assert load.own_cores == pytest.approx((1.8 + 0.5) / 2)
    assert load.further_cores == pytest.approx(0.25)
    assert load.others_cores == pytest.approx((3.5 - 2.3) / 2)
    assert load.cores == psutil.cpu_count()


@pytest.mark.parametrize("now", [(0.1, 0.1, 0.1, 0.0), (1.0, 1.0, -0.1, 0.0), (1.0, 1.0, 0.1, -0.1)])
def test_too_short_or_over_is_not_known(clock, now):
    meter = LoadMeter(clock)
    clock.now = now
    assert meter.read() is None
