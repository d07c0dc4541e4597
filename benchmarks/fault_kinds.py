"""The injected faults. Each does one kind of harm to a project, and returns the messages that a user saw."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
from broken_scripts import BROKEN, TRAIN
from fault_bytes import BYTE_FAULTS, SETTINGS
from fault_command import WORDS, Ended, Lost, told
from fault_figures import figures
from fault_project import Project, descendants
from fault_servers import SERVER_FAULTS

from skyline.ledger.ledger import Ledger
from skyline.trace import store

Inject = Callable[[Project, Random], str]
FOR_A_WHILE_S = 12.0
"""Faults at a random moment occur in this time after a command's start, in s. It includes all stages of a profile."""
HOSTILE = {
    "prints a gigabyte": "chunk = 'x' * 1_000_000\nfor _ in range(1000):\n    print(chunk)\n" + TRAIN,
    "changes its directory": "import os\nos.chdir('/')\n" + TRAIN,
    "rewrites its own file": "open(__file__, 'a').write('# more\\n')\n" + TRAIN,
    "removes its folder": "import os, shutil\nshutil.rmtree(os.path.dirname(os.path.abspath(__file__)))\n"
    + TRAIN,
    "writes through a link": "open('link.txt', 'w').write('gone')\n" + TRAIN,
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n" + TRAIN,
    "ends in the middle of a record": TRAIN + "    if step == 9:\n        __import__('os')._exit(0)\n",
    "detaches a program with an empty environment": (
        "import os, sys\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        os.execve(sys.executable, ['python', '-c', 'import time; time.sleep(1000)'], {})\n"
        "    os._exit(0)\n"
        "raise RuntimeError('and leaves it')\n"
    ),
}
_PROFILED_AGAIN = 0.04
"""The share of torn profiles that are followed by a run. It is small, because a run takes long."""
_ENDED_BY = {
    signal.SIGKILL: {-signal.SIGKILL},
    signal.SIGTERM: {-signal.SIGTERM, 128 + signal.SIGTERM},
    signal.SIGINT: {-signal.SIGINT},
}
"""Exit codes of a command ended by a signal, in addition to the codes of ``WORDS``."""
_NOT_HERE = ("the file is gone",)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. ``weight`` is its frequency relative to the others."""

    name: str
    inject: Inject
    weight: int = 2
    keeps_profile: bool = True
    """True if the last good figures must remain; false if the fault damages them."""
    keeps_ledger: bool = True
    """True if the entries of the ledger must remain; false if the fault damages it."""
    leaves_partial: bool = False
    """True if the fault kills a process that may be saving at that moment."""
    mounts: bool = False
    """True if the fault needs the right to mount a disk."""


def kinds() -> tuple[Kind, ...]:
    """All kinds. Cheap kinds have larger weights."""
    return (
        Kind("saved profile torn or damaged", _torn_profile, 150, keeps_profile=False),
        Kind("ledger torn or damaged", _torn_ledger, 90, keeps_ledger=False),
        Kind("settings torn or damaged", _torn_settings, 90),
        *(Kind(name, inject, 1) for name, inject in BYTE_FAULTS.items()),
        Kind("clock set back: everything is of tomorrow", _from_tomorrow, 4),
        Kind("few file descriptors", _limited(resource.RLIMIT_NOFILE, 8, 200), 4),
        Kind("little memory", _limited(resource.RLIMIT_AS, 200_000_000, 4_000_000_000), 4),
        Kind("files limited in size", _limited(resource.RLIMIT_FSIZE, 0, 200_000), 4),
        Kind("home is absent", _homeless),
        Kind("home is read-only", _read_only("home"), mounts=True),
        Kind("project is read-only", _read_only("project"), mounts=True),
        Kind("full disk under the project", _full(".skyline"), 4, keeps_profile=False, mounts=True),
        Kind("full disk under the temporary folder", _full(None), 4, mounts=True),
        Kind("profile command killed (SIGKILL)", _command_ended(signal.SIGKILL), 6, leaves_partial=True),
        Kind("profile command ended (SIGTERM)", _command_ended(signal.SIGTERM), 4),
        Kind("profile command interrupted (SIGINT)", _command_ended(signal.SIGINT), 4),
        Kind("profile command stopped and continued", _command_paused, 2),
        Kind("script's process killed (SIGKILL)", _child_ended(signal.SIGKILL), 6),
        Kind("script's process stopped (SIGSTOP)", _child_ended(signal.SIGSTOP), 3),
        Kind("script changed while it is measured", _changed_meanwhile, 3),
        Kind("two profiles of one file at once", _two_at_once, 2),
        *(Kind(f"script: {name}", _scripted(text), 2) for name, text in scripts().items()),
        *(Kind(name, inject, 3, leaves_partial="killed" in name) for name, inject in SERVER_FAULTS.items()),
    )


def scripts() -> dict[str, str | bytes]:
    """Hostile and broken scripts, by their action."""
    broken = {name: text for name, text in BROKEN.items() if text is not None and name not in _NOT_HERE}
    return {**broken, **HOSTILE}


# Files on disk.


def _damaged(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    way = random.choice(("torn", "flipped", "zeros", "doubled", "empty"))
    if way == "torn":
        return content[:at]
    if way == "flipped":
        at = min(at, len(content) - 1)
        return content[:at] + bytes([content[at] ^ (1 << random.randrange(8))]) + content[at + 1 :]
    if way == "zeros":
        return content[:at] + bytes(len(content) - at)
    return content + content if way == "doubled" else b""


def _torn_profile(project: Project, random: Random) -> str:
    """Tear a profile. Then the good figures or none are shown, and a whole profile that is saved later is shown."""
    (path,) = project.folder.glob(f".skyline/*{store.SUFFIX}")
    whole = path.read_bytes()
    path.write_bytes(_damaged(whole, random))
    shown = project.run_quickly("show", "train.py", "--json", "-")
    if shown.code == 0 and figures(shown) != project.good:
        raise Lost(f"a damaged profile shows {figures(shown)}")
    if random.random() < _PROFILED_AGAIN:
        project.run(*project.profile, "train.py", codes={0})
    later = path.with_name(store.name_of(project.script, "later"))
    later.write_bytes(whole)
    os.utime(later, (time.time() + 60, time.time() + 60))
    if figures(project.show()) != project.good:
        raise Lost("a whole profile next to a damaged one is not shown")
    return shown.last_line


def _torn_ledger(project: Project, random: Random) -> str:
    path = project.ledger
    path.write_bytes(_damaged(path.read_bytes(), random))
    ended = project.run_quickly("ledger")
    path.rename(path.with_suffix(".damaged"))
    entry = project.kept_entries()[0]
    Ledger(path).write(entry)
    again = project.run_quickly("ledger", "--json", "-")
    if again.code or entry.id not in again.output:
        raise Lost(f"a new ledger is not started: {again.last_line}")
    return ended.last_line


def _torn_settings(project: Project, random: Random) -> str:
    path = project.folder / "pyproject.toml"
    path.write_bytes(_damaged(SETTINGS, random))
    ended = project.run_quickly("config")
    path.write_bytes(SETTINGS)
    if project.run_quickly("config").code:
        raise Lost("restored settings are refused")
    path.unlink()
    return ended.last_line


def _from_tomorrow(project: Project, random: Random) -> str:
    later = time.time() + random.uniform(3600, 400 * 86_400)
    for path in project.folder.rglob("*"):
        os.utime(path, (later, later), follow_symlinks=False)
    ended = project.run(*project.profile, "train.py")
    project.put_back()
    return ended.last_line


# Limits of system resources.


def _limited(which: int, least: int, most: int) -> Inject:
    def inject(project: Project, random: Random) -> str:
        limit = round(least * (most / max(least, 1)) ** random.random()) if least else random.randrange(most)
        ended: Ended = project.finish(project.start(*project.profile, "train.py", limits={which: limit}))
        # With too low a limit the interpreter itself does not start, and writes its own message.
        return f"{limit}: {ended.last_line}"

    return inject


def _homeless(project: Project, random: Random) -> str:
    nowhere = str(project.root / "nowhere" / random.choice(("", "deeper/", "with space")))
    ended = project.run(*project.profile, "train.py", HOME=nowhere, SKYLINE_DATA_DIR=f"{nowhere}/data")
    if ended.code != 0:
        raise Lost(f"the script was not profiled without a home: {ended.last_line}")
    return ended.last_line


@contextmanager
def _mounted(*command: str, at: Path) -> Iterator[None]:
    subprocess.run(["mount", *command, str(at)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def _read_only(name: str) -> Inject:
    def inject(project: Project, random: Random) -> str:
        at = project.root / name
        with _mounted("--bind", str(at), at=at), _remounted(at):
            ended = project.run(*project.profile, "train.py")
            if ended.code != 0:
                raise Lost(f"nothing was profiled: {ended.last_line}")
        return ended.last_line

    return inject


@contextmanager
def _remounted(at: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,bind,ro", str(at)], check=True, capture_output=True)
    yield


def _full(below: str | None) -> Inject:
    """The fault of a full disk: a few kB for a folder of the project, or for the temporary folder."""

    def inject(project: Project, random: Random) -> str:
        at = project.temporary if below is None else project.folder / below
        size = random.choice((4, 16, 64, 256, 1024))
        with _mounted("-t", "tmpfs", "-o", f"size={size}k", "tmpfs", at=at):
            ended = project.run(*project.profile, "train.py")
        return f"{size} kB: {ended.last_line}"

    return inject


# Processes that are ended at random moments.


def _later(process: subprocess.Popen[str], random: Random) -> None:
    """Wait until a random moment of a command's life."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(random.uniform(0, FOR_A_WHILE_S))


def _command_ended(how: signal.Signals) -> Inject:
    def inject(project: Project, random: Random) -> str:
        process = project.start(*project.profile, "train.py")
        _later(process, random)
        if process.poll() is None:
            process.send_signal(how)
        ended = told(project.finish(process), WORDS | _ENDED_BY[how])
        _next_works(project)
        return ended.last_line

    return inject


def _next_works(project: Project) -> None:
    """Check that the next command can profile the script, whatever the last one left."""
    project.run(*project.profile, "train.py", codes={0})


def _command_paused(project: Project, random: Random) -> str:
    process = project.start(*project.profile, "train.py")
    _later(process, random)
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(random.uniform(0.5, 4))
        process.send_signal(signal.SIGCONT)
    ended = project.finish(process)
    if ended.code != 0:
        raise Lost(f"stopped and continued, it failed: {ended.last_line}")
    return ended.last_line


def _child_ended(how: signal.Signals) -> Inject:
    def inject(project: Project, random: Random) -> str:
        process = project.start(*project.profile, "--timeout", "8", "train.py")
        _later(process, random)
        for child in _script_processes():
            with contextlib.suppress(psutil.Error):
                child.send_signal(how)
        return told(project.finish(process)).last_line

    return inject


def _script_processes() -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in descendants():
        with contextlib.suppress(psutil.Error):
            if any("capture/child" in word for word in process.cmdline()):
                found.append(process)
    return found


def _changed_meanwhile(project: Project, random: Random) -> str:
    process = project.start(*project.profile, "train.py")
    _later(process, random)
    project.script.write_text(random.choice(("", "def (", "import os\n" + TRAIN)), encoding="utf-8")
    ended = told(project.finish(process))
    project.put_back()
    return ended.last_line


def _two_at_once(project: Project, random: Random) -> str:
    both = [project.start(*project.profile, "train.py") for _ in range(2)]
    ends = [project.finish(process) for process in both]
    if failed := [ended for ended in ends if ended.code != 0]:
        raise Lost(f"one of two simultaneous profiles failed: {failed[0].last_line}")
    return ends[0].last_line


def _scripted(text: str | bytes) -> Inject:
    def inject(project: Project, random: Random) -> str:
        hostile = project.folder / "hostile.py"
        hostile.write_bytes(text if isinstance(text, bytes) else text.encode())
        before = project.checksum()
        told = project.run(*project.profile, "--timeout", "8", "hostile.py").last_line
        if project.checksum() != before:
            raise Lost("the script changed a file of the user")
        hostile.unlink()
        return told

    return inject
