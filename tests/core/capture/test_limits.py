"""Limits on a run's use of the machine, and that nothing of it is left when its parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from skyline.capture.guard import Guard, RunLimits
from skyline.capture.output import ScriptOutput
from skyline.capture.process import ENTRY, HAS_SUBREAPER
from skyline.capture.process_family import RUN_TAG, ParentDeathReaper, ProcessFamily
from skyline.capture.scratch import make_scratch
from skyline.errors import CaptureImpossible

SLEEP = "import time; time.sleep(600)"


def start(code: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


DETACHED = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def test_a_process_that_left_its_session_and_parents_is_found_and_ended() -> None:
    run = start(DETACHED, **{RUN_TAG: "abc"})
    assert run.stdout is not None
    stray = int(run.stdout.readline())
    wait_until(lambda: psutil.Process(stray).ppid() != run.pid)

    ProcessFamily(run.pid, "abc").end()

    wait_until(lambda: gone(stray) and run.poll() is not None)
    end(run)


DAEMON = """
import os, runpy, subprocess, sys, time
runpy.run_path({entry!r})["load_package"]()
from _skyline_child import subreaper
subreaper.continue_below(())
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(1, b"daemon %d\\n" % os.getpid())
        os.execve("/bin/sleep", ["sleep", "600"], {{}})
    os._exit(0)
os.wait()
os.write(1, b"left %d\\n" % os.getppid())
{then}
"""


def daemon_of(run: subprocess.Popen[bytes]) -> int:
    """Its process, once nothing of its own tells whose it was."""
    assert run.stdout is not None
    told = dict(run.stdout.readline().split() for _ in range(2))
    daemon = int(told[b"daemon"])
    wait_until(lambda: psutil.Process(daemon).name() == "sleep")
    assert psutil.Process(daemon).environ() == {}
    return daemon


@pytest.mark.skipif(not HAS_SUBREAPER, reason="Linux alone gives orphans to the process above")
def test_a_daemon_without_our_environment_ends_with_the_run() -> None:
    run = start(DAEMON.format(entry=str(ENTRY), then=SLEEP), **{RUN_TAG: "abc"})
    daemon = daemon_of(run)
    family = ProcessFamily(run.pid, "abc", subreaper=True)
    assert daemon in {process.pid for process in family.members()}
    assert run.pid not in {process.pid for process in family.members()}
    family.stop()
    wait_until(lambda: psutil.Process(daemon).status() == psutil.STATUS_STOPPED)
    assert psutil.Process(run.pid).status() != psutil.STATUS_STOPPED

    family.end()

    wait_until(lambda: gone(daemon) and run.poll() is not None)
    end(run)


@pytest.mark.skipif(not HAS_SUBREAPER, reason="Linux alone gives orphans to the process above")
@pytest.mark.parametrize(
    ("then", "status"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), 11)", -11), ("os.kill(os.getpid(), 9)", -9)],
)
def test_a_subreaper_ends_what_is_left_and_tells_how_the_run_ended(then: str, status: int) -> None:
    run = start(DAEMON.format(entry=str(ENTRY), then=then))
    assert run.stdout is not None
    daemon = int(run.stdout.readline().split()[1])
    wait_until(lambda: run.poll() is not None)
    assert run.returncode == status
    assert gone(daemon)
    end(run)


@pytest.mark.skipif(not HAS_SUBREAPER, reason="Linux alone gives orphans to the process above")
def test_a_daemon_ends_when_the_holder_is_killed(tmp_path: Path) -> None:
    code = DAEMON.format(entry=str(ENTRY), then=SLEEP)
    holder = start(
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', {code!r}])\n{SLEEP}"
    )
    daemon = daemon_of(holder)

    holder.kill()

    wait_until(lambda: gone(daemon))
    end(holder)


def test_other_runs_are_left_alone() -> None:
    mine, other = start(SLEEP, **{RUN_TAG: "mine"}), start(SLEEP, **{RUN_TAG: "other"})
    ProcessFamily(mine.pid, "mine").end()
    wait_until(lambda: mine.poll() is not None)
    assert other.poll() is None
    end(mine)
    end(other)


@pytest.mark.parametrize(
    ("code", "limits", "words"),
    [
        (
            "import os, time\nfor _ in range(20):\n    if not os.fork(): time.sleep(600)\ntime.sleep(600)",
            RunLimits(processes=10),
            "more than 10 processes",
        ),
        (
            "import os, time\ndata = bytearray(os.urandom(1 << 20) * 80)\ntime.sleep(600)",
            RunLimits(memory_bytes=50_000_000),
            "over the limit of 50.0 MB",
        ),
        (
            "import os, time\nopen(os.environ['INTO'], 'wb').write(bytes(9_000_000))\ntime.sleep(600)",
            RunLimits(scratch_bytes=5_000_000),
            "wrote 9.0 MB of files",
        ),
    ],
    ids=["processes", "memory", "files"],
)
def test_a_run_over_a_limit_is_ended(code: str, limits: RunLimits, words: str, tmp_path: Path) -> None:
    run = start(code, INTO=str(tmp_path / "big"))
    guard = Guard(ProcessFamily(run.pid, "none"), tmp_path, limits)

    wait_until(lambda: run.poll() is not None)

    assert guard.excess is not None
    assert words in guard.excess.message
    assert guard.excess.hint
    guard.stop()
    end(run)


def test_the_lifeline_ends_a_group_when_its_holder_is_killed(tmp_path: Path) -> None:
    run = start(SLEEP)
    scratch = tmp_path / "scratch"
    (scratch / "tree").mkdir(parents=True)
    holder = start(
        f"import sys, time; sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path\nfrom skyline.capture.process_family import ParentDeathReaper\n"
        f"kept = ParentDeathReaper(Path({str(scratch)!r})); kept.watch({run.pid}); print(1, flush=True)\n{SLEEP}"
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert run.poll() is None

    holder.kill()

    wait_until(lambda: run.poll() is not None and not scratch.exists())
    end(run)
    end(holder)


def test_the_folder_of_a_run_goes_though_its_holder_is_killed_before_the_run_starts(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    holder = start(
        f"import sys, time; sys.path[:] = {sys.path!r}\n"
        "from pathlib import Path\nfrom skyline.capture.process_family import ParentDeathReaper\n"
        f"kept = ParentDeathReaper(Path({str(scratch)!r})); print(1, flush=True)\n{SLEEP}"
    )
    assert holder.stdout is not None
    holder.stdout.readline()

    holder.kill()

    wait_until(lambda: not scratch.exists())
    end(holder)


def test_a_lifeline_that_was_killed_is_closed_all_the_same(tmp_path: Path) -> None:
    before = psutil.Process().children()
    death_reaper = ParentDeathReaper(tmp_path)
    (shell,) = set(psutil.Process().children()) - set(before)
    shell.kill()
    wait_until(lambda: shell.status() == psutil.STATUS_ZOMBIE)
    death_reaper.watch(os.getpid())
    death_reaper.close()


def test_a_closed_lifeline_harms_nothing(tmp_path: Path) -> None:
    run = start(SLEEP)
    before = len(psutil.Process().children())
    death_reaper = ParentDeathReaper(tmp_path)
    death_reaper.watch(run.pid)
    death_reaper.close()
    assert len(psutil.Process().children()) == before
    assert run.poll() is None
    assert tmp_path.exists()
    end(run)


@pytest.mark.capture
@pytest.mark.parametrize(
    "stuck", ["while True: pass", "import re; re.match('(a+)+$', 'a' * 60 + 'b')"], ids=["busy", "native"]
)
def test_the_script_ends_with_a_killed_parent(stuck: str, tmp_path: Path) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    script = tmp_path / "train.py"
    script.write_text(f"import os\nprint('pid', os.getpid(), flush=True)\n{stuck}\n")
    parent = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "skyline",
            "profile",
            "--no-save",
            "--interpreter",
            sys.executable,
            str(script),
        ],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stderr is not None
    line = next(line for line in parent.stderr if line.startswith("pid"))
    pid = int(line.split()[1])

    parent.send_signal(signal.SIGKILL)

    wait_until(lambda: gone(pid) and not list(temporary.glob("skyline-*")))
    parent.wait()
    parent.stderr.close()


def test_output_without_end_is_drained_and_bounded() -> None:
    run = start("import sys\nfor i in range(3000): print(i, 'x' * 10_000)")
    heard: list[str] = []
    assert run.stdout is not None
    output = ScriptOutput(run.stdout, heard.append)
    run.wait()

    assert sum(map(len, heard)) < 9_000_000
    assert "no more of it is shown" in heard[-1]
    assert output.tail(2).splitlines()[-1].endswith("x" * 100)
    assert len(output.tail()) < 100_000
    output.close()


def test_the_last_lines_are_as_a_terminal_would_show_them() -> None:
    run = start("import sys\nsys.stdout.write('one\\n\\x1b[31mtwo\\x1b[0m\\n 10%\\r 50%\\r100%\\n\\u20ac')")
    assert run.stdout is not None
    output = ScriptOutput(run.stdout, None)
    run.wait()
    assert output.tail() == "one\ntwo\n100%\n€"
    output.close()


def test_the_chatter_of_the_profiler_leaves_no_blank_lines() -> None:
    chatter = (
        "[W1127 19:01:00.1 CPUAllocator.cpp:257] Memory block of unknown size was allocated (function f)"
    )
    run = start(
        "import os, time\n"
        f"for part in ('one\\n', {chatter!r}, '\\n', ' 50%|##', {chatter!r}, '\\n', '[Wait', '\\n', '[W 3'):\n"
        "    os.write(2, part.encode()); time.sleep(0.05)"
    )
    heard: list[str] = []
    assert run.stdout is not None
    output = ScriptOutput(run.stdout, heard.append)
    run.wait()
    assert output.tail() == "one\n 50%|##[Wait\n[W 3"
    assert "".join(heard) == "one\n 50%|##[Wait\n[W 3"
    output.close()


def test_no_room_for_a_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(CaptureImpossible, match="No temporary folder") as caught:
        make_scratch()
    assert "TMPDIR" in caught.value.hint
