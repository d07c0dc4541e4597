"""Finds every process that belongs to a run, including detached ones, and ends them all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

_WAIT_AND_KILL = """
trap "" HUP INT TERM
read -r group
if [ -z "$group" ]; then
    # Nothing is known to run yet; a process that has just started ends by itself.
    sleep 1
else
    read -r _
    if [ "$1" = subreaper ]; then
        kill -s TERM "$group"
        n=0
        while kill -s 0 "$group" && [ $n -lt 60 ]; do sleep 0.1; n=$((n + 1)); done
    fi
    kill -s KILL -- "-$group"
    sleep 0.2
fi
rm -rf -- "$0"
"""


class ParentDeathReaper:
    """A small shell that waits for the end of its standard input, which we hold open, and then removes a run.

    It knows the run's folder from the beginning, and receives the process group once there is one. The run itself
    also watches for our end, but cannot react while native code blocks the interpreter. If there is a ``subreaper``,
    the shell ends it first, since it knows the processes that left the group.
    """

    def __init__(self, scratch: Path, *, subreaper: bool = False) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_AND_KILL, str(scratch), "subreaper" if subreaper else ""],
                bufsize=0,  # data that a killed shell did not read must not be written again on close
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            pass  # without a shell, only the run itself watches for our end

    def watch(self, group: int) -> None:
        """Tell the shell the process group of the run."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.write(b"%d\n" % group)

    def close(self) -> None:
        """End the shell: the run has ended."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()
            self._shell = None


RUN_TAG = "SKYLINE_RUN"
"""The environment variable that identifies a process of the run even after its parents have ended."""
_END_WITHIN_S = 5.0
_POLL_S = 0.02


class ProcessFamily:
    """The leader of a process group, its descendants, and processes that the run detached from it.

    A process that starts a session of its own leaves the group. A process whose parent has ended is no longer a
    descendant, unless the leader is a subreaper, which adopts it. Without a subreaper, processes are remembered once
    they have been seen. In both cases the tag in their environment identifies them. A subreaper itself is no member.
    """

    def __init__(self, leader: int, tag: str, *, subreaper: bool = False) -> None:
        self._leader = leader
        self._subreaper = subreaper
        try:
            self._root = psutil.Process(leader)
        except psutil.Error:
            self._root = None
        self._tag = tag
        self._seen: dict[int, psutil.Process] = {}

    def members(self) -> list[psutil.Process]:
        """The processes that are running now."""
        return self._members(lambda root: root.children(recursive=True))

    def _members(self, below: Callable[[psutil.Process], list[psutil.Process]]) -> list[psutil.Process]:
        try:
            if self._root is not None:
                for process in (*(() if self._subreaper else (self._root,)), *below(self._root)):
                    self._seen.setdefault(process.pid, process)
        except psutil.Error:
            pass
        # A copy, since the guard's thread may call this while another thread ends the run.
        for pid, process in list(self._seen.items()):
            if not _runs(process):
                self._seen.pop(pid, None)
        return list(self._seen.values())

    def script_pid(self) -> int:
        """ID of the script's own process."""
        if self._subreaper:
            try:
                return min(_children(psutil.Process(self._leader)), key=psutil.Process.create_time).pid
            except (psutil.Error, ValueError):
                pass
        return self._leader

    def stop(self) -> None:
        """Stop every process: a loader's workers would otherwise continue to fill their queue."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let all processes continue."""
        self._signal(signal.SIGCONT)

    def cpu_s(self) -> tuple[float, float]:
        """Processor time in s so far: of the script's own process, and of all others including ended ones."""
        script, further, pid = 0.0, 0.0, self.script_pid()
        for process in self._members(descendants):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            used = times.user + times.system
            if process.pid == pid:
                script += used
                # Loaders restart their workers in each epoch; only Linux and macOS count workers that ended.
                further += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
            else:
                further += used
        return script, further

    def open_files(self) -> set[str]:
        """Paths of the files that the processes have open for writing."""
        found: set[str] = set()
        for process in self.members():
            try:
                # Only Linux reports the mode.
                found.update(
                    file.path for file in process.open_files() if set(getattr(file, "mode", "w")) & set("wa+")
                )
            except (psutil.Error, OSError):
                continue
        return found

    def end(self) -> None:
        """Kill the group and all processes of the run outside of it, until none is left."""
        if self._subreaper:
            # The subreaper kills the processes that it adopts in the meantime, and then ends itself.
            try:
                if self._root is not None:
                    self._root.terminate()
            except psutil.Error:
                pass
        deadline = time.monotonic() + _END_WITHIN_S
        while True:
            self._kill_groups()
            left = [process for process in (*self.members(), *self._tagged()) if process.pid != self._leader]
            for process in left:
                self._seen.setdefault(process.pid, process)
                try:
                    process.kill()
                except psutil.Error:
                    continue
            if not left or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    def _signal(self, number: int) -> None:
        # First whole groups at once, then processes that left them.
        members = self.members()
        groups = self._groups(members)
        for group in groups:
            try:
                os.killpg(group, number)
            except (ProcessLookupError, PermissionError):
                continue
        for process in self.members():
            try:
                if os.getpgid(process.pid) not in groups:
                    os.kill(process.pid, number)
            except OSError:
                continue

    def _groups(self, members: list[psutil.Process]) -> set[int]:
        """Process groups that contain only processes of the run."""
        if not self._subreaper:
            return {self._leader}
        found: set[int] = set()
        for process in members:
            try:
                found.add(os.getpgid(process.pid))
            except OSError:
                continue
        return found - {self._leader, os.getpgrp()}

    def _kill_groups(self) -> None:
        for group in self._groups(self.members()):
            try:
                os.killpg(group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def _tagged(self) -> Iterator[psutil.Process]:
        own = os.getpid()
        for process in psutil.process_iter():
            if process.pid in (own, self._leader):
                continue
            try:
                if process.environ().get(RUN_TAG) == self._tag and _runs(process):
                    yield process
            except (psutil.Error, OSError):
                continue


def descendants(root: psutil.Process) -> list[psutil.Process]:
    """All descendants of this process, found ten times faster than by a search through all processes of the machine.

    The kernel may omit a process if a sibling ends at this moment: good enough to add up times, but not to end a run.
    """
    found: list[psutil.Process] = []
    left = [root]
    while left:
        children = _children(left.pop())
        found += children
        left += children
    return found


def _children(process: psutil.Process) -> list[psutil.Process]:
    if not process.is_running():
        return []
    try:
        with os.scandir(f"/proc/{process.pid}/task") as tasks:
            lists = [Path(task, "children").read_text() for task in tasks]
    except OSError:
        # This is another system, a kernel without these lists, or a thread that has just ended.
        with contextlib.suppress(psutil.Error):
            return process.children()
        return []
    found: list[psutil.Process] = []
    for pid in " ".join(lists).split():
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(int(pid)))
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
