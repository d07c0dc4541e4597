"""A project to inject faults into: a script, its data and its saved profile, with checks for remains of a fault."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import psutil
from broken_scripts import TRAIN
from fault_command import WORDS, Ended, Lost, run_forked, told, warm_up
from fault_figures import Figures, check_figures, check_ledger, figures, seed

from skyline.ledger.ledger import Ledger, LedgerEntry
from skyline.trace.store import SUFFIX

_PROFILE = ("profile", "--quiet", "--steps", "3", "--warmup", "1")
LONGEST_S = 400.0
GRACE_S = 15.0
"""Time after the end of a command, in s, after which anything that still exists counts as left over."""
_PR_SET_CHILD_SUBREAPER = 36
_SHARED = re.compile(r" /dev/shm/(\S+)")
_OWN_FOLDERS = frozenset({".skyline", "__pycache__"})
_OWN_IN_HOME = (".cache/", "data/")
"""Folders of a home in which the product and the libraries of the script may write."""


class Project:
    """The project, a home and a temporary folder, always at the same paths and restored before each fault."""

    def __init__(self, root: Path, budget_s: float | None = None, program: Path | None = None) -> None:
        """``budget_s`` is the time for trials in each profile; None: the product's default.

        ``program`` is a script that acts as the command ``skyline``; None: the product's own.
        """
        self._program = ("-m", "skyline") if program is None else (str(program),)
        budget = () if budget_s is None else ("--budget", f"{budget_s:g}")
        self.profile = (*_PROFILE, *budget)
        """The words of the command that profiles a script."""
        self.root = root.resolve()
        self.folder = self.root / "project"
        self.home = self.root / "home"
        self.temporary = self.root / "tmp"
        self.script = self.folder / "train.py"
        self.ledger = self.home / "data" / "ledger.sqlite3"
        self.good = Figures("", 0.0)
        self._kept = self.root / "kept"
        self._shared_memory: set[str] = set()
        self._own_descriptors = 0

    def prepare(self) -> None:
        """Write the project, profile it once, and keep a copy of everything for ``restore``."""
        adopt_orphans()
        for folder in (self.folder, self.home, self.temporary):
            folder.mkdir()
        self.script.write_text(TRAIN, encoding="utf-8")
        (self.folder / "notes.txt").write_text("not to be touched\n", encoding="utf-8")
        (self.folder / "data").mkdir()
        (self.folder / "data" / "rows.bin").write_bytes(bytes(range(256)) * 64)
        (self.folder / "link.txt").symlink_to("notes.txt")
        ended = self.run(*self.profile, "train.py")
        if ended.code != 0:
            raise SystemExit(f"the script without a fault could not be profiled: {ended.last_line}")
        (profile,) = self.folder.glob(f".skyline/*{SUFFIX}")
        warm_up(profile)
        seed(self.ledger)
        self.good = figures(self.show())
        for name in ("project", "home"):
            shutil.copytree(self.root / name, self._kept / name, symlinks=True)

    def restore(self) -> None:
        """Restore the state after the first profile."""
        for name in ("project", "home"):
            shutil.rmtree(self.root / name)
            shutil.copytree(self._kept / name, self.root / name, symlinks=True)
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)
        self._shared_memory = set(_names("/dev/shm"))
        self._own_descriptors = len(os.listdir("/proc/self/fd"))

    def kept_entries(self) -> tuple[LedgerEntry, ...]:
        """The entries of the ledger before any fault."""
        return Ledger(self._kept / "home" / "data" / self.ledger.name).entries()

    def put_back(self) -> None:
        """Restore the user's files, with their modes and times, after a fault that changes them on purpose."""
        kept = self._kept / "project"
        for path in kept.rglob("*"):
            parts = path.relative_to(kept).parts
            if path.is_file() and not path.is_symlink() and _OWN_FOLDERS.isdisjoint(parts):
                shutil.copy2(path, self.folder.joinpath(*parts))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command, with the home and the temporary folder of the project."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SKYLINE_", "XDG_", "PYTHON"))
        }
        return kept | {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "OMP_NUM_THREADS": "1",
            "NO_COLOR": "1",
            "SKYLINE_DATA_DIR": str(self.home / "data"),
        }

    # Commands.

    def start(
        self, *arguments: str, limits: Mapping[int, int] | None = None, **changes: str
    ) -> subprocess.Popen[str]:
        """Start the product's command in the project. ``changes`` are of the environment, ``limits`` by resource."""
        process = subprocess.Popen(
            [sys.executable, *self._program, *arguments],
            cwd=self.folder,
            env=self.environment | changes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        for which, value in (limits or {}).items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, which, (value, value))
        return process

    def finish(self, process: subprocess.Popen[str], longest_s: float = LONGEST_S) -> Ended:
        """Wait for the end of a process. A process that does not end is a loss."""
        try:
            output, errors = process.communicate(timeout=longest_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Lost(f"the command did not end within {longest_s:g} s") from None
        return Ended(process.returncode, output, errors)

    def run(self, *arguments: str, codes: Collection[int] = WORDS, **changes: str) -> Ended:
        """Start the command and wait for its end. A traceback in its output is a loss."""
        return told(self.finish(self.start(*arguments, limits=None, **changes)), codes)

    def run_quickly(self, *arguments: str) -> Ended:
        """Run the command in a fork of this process, which has already imported the product."""
        return told(run_forked(arguments, self.folder, self.environment, LONGEST_S))

    def show(self) -> Ended:
        """The saved figures of the script."""
        return self.run_quickly("show", "train.py", "--json", "-")

    # Remains of a fault.

    def checksum(self) -> dict[str, str]:
        """Content, mode and time of every file, folder and link of the user, by name."""
        found: dict[str, str] = {}
        for path in sorted(self.folder.rglob("*")):
            parts = path.relative_to(self.folder).parts
            if not _OWN_FOLDERS.isdisjoint(parts):
                continue
            name, status = "/".join(parts), path.lstat()
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_dir():
                found[name] = f"folder {status.st_mode:o}"
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                found[name] = f"{content} {status.st_mode:o} {status.st_mtime_ns}"
            else:
                found[name] = "special"
        return found

    def check(
        self,
        before: Mapping[str, str],
        *,
        keeps_profile: bool = True,
        keeps_ledger: bool = True,
        leaves_partial: bool = False,
    ) -> None:
        """Raise Lost if a process, descriptor, file or change is left, or if the last good figures are gone.

        A process that is killed while it saves may leave a partial file (``leaves_partial``), and nothing else.
        """
        self._check_processes()
        left = sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*"))
        # Compiled kernels are in the library's own cache.
        left = [name for name in left if not name.startswith("torchinductor_")]
        if left:
            raise Lost(f"left in the temporary folder: {', '.join(left[:5])}")
        self._check_shared_memory()
        self.check_files(before)
        self._check_home()
        partial = [path.name for path in self.root.rglob(".*.part") if self._kept not in path.parents]
        if partial and not leaves_partial:
            raise Lost(f"partial files are left: {', '.join(partial[:5])}")
        if (more_open := len(os.listdir("/proc/self/fd")) - self._own_descriptors) > 0:
            raise Lost(f"{more_open} descriptors of the client are left open")
        if keeps_ledger:
            check_ledger(self.ledger)
        if keeps_profile:
            check_figures(self.good, figures(self.show()), self._new_profiles())

    def _new_profiles(self) -> list[Path]:
        kept = {path.name for path in self._kept.rglob(f"*{SUFFIX}")}
        found = [*self.folder.rglob(f"*{SUFFIX}"), *self.home.rglob(f"*{SUFFIX}")]
        return [path for path in found if path.name not in kept]

    def _check_shared_memory(self) -> None:
        """Raise Lost if a new name remains that no living process uses. Other programs use the folder too."""
        deadline = time.monotonic() + GRACE_S
        while more := set(_names("/dev/shm")) - self._shared_memory - _shared_memory_in_use():
            if time.monotonic() > deadline:
                raise Lost(f"left in shared memory: {', '.join(sorted(more)[:5])}")
            time.sleep(0.2)

    def _check_home(self) -> None:
        kept = self._kept / "home"
        known = {str(path.relative_to(kept)) for path in kept.rglob("*")}
        names = {str(path.relative_to(self.home)) for path in self.home.rglob("*") if not path.is_dir()}
        if strange := sorted(name for name in names - known if not name.startswith(_OWN_IN_HOME)):
            raise Lost(f"left in the home: {', '.join(strange[:5])}")

    def check_files(self, before: Mapping[str, str]) -> None:
        """Raise Lost if a file of the user has changed."""
        after = self.checksum()
        if after != dict(before):
            changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
            raise Lost(f"files of the user have changed: {', '.join(changed[:5])}")

    def _check_processes(self) -> None:
        deadline = time.monotonic() + GRACE_S
        while left := descendants():
            if time.monotonic() > deadline:
                names = ", ".join(f"{_command(one)} ({one.status()})" for one in left[:5])
                kill(left)
                raise Lost(f"processes are left: {names}")
            time.sleep(0.1)


def adopt_orphans() -> None:
    """Become the parent of all processes that a command leaves behind, even daemons. Linux only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit(
            "this system does not hand orphaned processes to a parent of choice: run it on Linux"
        )


def descendants() -> list[psutil.Process]:
    """The living descendants of this process. Ended ones are reaped."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
    return found


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill the processes and their descendants."""
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            os.kill(process.pid, signal.SIGKILL)
    time.sleep(0.2)
    descendants()


def _shared_memory_in_use() -> set[str]:
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            found |= set(_SHARED.findall(maps.read_text(errors="replace")))
    return found


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())[-100:] or process.name()
    return "?"
