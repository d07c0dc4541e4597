"""Runs without the functions that macOS and Windows lack: neither system itself has been tried."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from skyline.capture.child import facts, subreaper
from skyline.capture.child.sandbox import landlock
from skyline.capture.process import Start
from skyline.capture.process_family import RUN_TAG, ProcessFamily
from skyline.capture.warm_pool import WarmPool
from skyline.ledger.ledger import ledger_path
from skyline.predict.own_table import own_table_path

RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"
WITHOUT_POSIX = """
import os, signal, socket, subprocess, sys
import psutil  # has code of its own for Windows
for name in ("fcntl", "termios", "pwd", "grp", "pty", "tty"):
    sys.modules[name] = None
for module, names in (
    (os, ("fork", "forkpty", "getuid", "getsid", "setsid", "killpg", "getpgid", "sched_getaffinity")),
    (socket, ("AF_UNIX",)),
    (signal, ("SIGKILL", "SIGHUP", "pthread_sigmask")),
):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from skyline.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_posix(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command where the modules and functions are missing that Windows does not have."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, *words],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "SKYLINE_DATA_DIR": str(folder)},
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", str(RECORDED)), "optimizer.step()"),
        (("whatif", str(RECORDED), "fused_optimizer"), "speed"),
        (("export", str(RECORDED), "--format", "html", "-o", "-"), "<!doctype html>"),
    ],
    ids=["show", "whatif", "export"],
)
def test_saved_profiles_are_read_without_posix(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = without_posix(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_a_run_without_process_groups_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = without_posix(tmp_path, "profile", "train.py")
    assert done.returncode == 3, done.stderr
    assert "WSL" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("SKYLINE_DATA_DIR", "SKYLINE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("macos")
def test_files_of_the_user_lie_where_macos_has_them(tmp_path: Path) -> None:
    support = tmp_path / "Library" / "Application Support" / "skyline"
    assert ledger_path().parent == support
    assert own_table_path() == support / "devices.toml"


@pytest.mark.usefixtures("macos")
def test_the_lock_of_linux_is_said_to_be_missing() -> None:
    with pytest.raises(landlock.Unavailable, match="no Landlock"):
        landlock.version()


@pytest.mark.usefixtures("macos")
def test_a_run_is_started_fresh_and_nothing_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")
    subreaper.continue_below(())
    started: list[Start] = []

    class Started:
        pass

    def fresh(start: Start) -> Started:
        started.append(start)
        return Started()

    pool = WarmPool(fallback=fresh)  # pyright: ignore[reportArgumentType]
    start = Start(sys.executable, tmp_path, {}, "", b"", threading.Event())
    assert isinstance(pool.start(start), Started)
    assert started == [start]
    pool.close()


@pytest.mark.usefixtures("macos")
def test_facts_of_the_processor_do_without_the_files_of_linux(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert facts._processor_name() == "arm"
    assert facts._cpu_features() == []
    assert facts.cache_bytes(str(tmp_path / "none")) == 0


def test_without_a_subreaper_a_detached_process_of_the_run_is_found_by_its_tag() -> None:
    detached = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{}'], start_new_session=True)"
    )
    sleeps = "import time; time.sleep(600)"
    run = subprocess.Popen(
        [sys.executable, "-c", f"{detached.format(sleeps)}; print(flush=True); {sleeps}"],
        env={**os.environ, RUN_TAG: "macos-test"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert run.stdout is not None
    run.stdout.readline()
    family = ProcessFamily(run.pid, "macos-test")
    members = family.members()
    assert len(members) == 2
    family.end()
    run.wait(20)
    run.stdout.close()
    _, alive = psutil.wait_procs(members, 20)
    assert not alive
