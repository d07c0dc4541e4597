"""Ends a run when this process is gone, however it went and whatever the run is doing then."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

_WAIT_AND_KILL = """
trap "" HUP INT TERM
read -r group
if [ -z "$group" ]; then
    # Nothing is known to run yet; a process that has just started ends by itself.
    sleep 1
else
    read -r _
    if [ "$1" = kept ]; then
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
    """A tiny shell that waits for the end of its standard input, which is ours, and then clears away a run.

    It knows the run's folder from the beginning, and receives the process group once there is one. The run listens for
    our end itself, but cannot while native code keeps the interpreter from running. With a keeper (``kept``) that one
    is ended, since it knows the processes that left the group.
    """

    def __init__(self, scratch: Path, *, kept: bool = False) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_AND_KILL, str(scratch), "kept" if kept else ""],
                bufsize=0,  # what a shell that was killed did not read must not be written once more at the close
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            pass  # no shell here: the run's own listening has to do

    def watch(self, group: int) -> None:
        """The run is this process group."""
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.write(b"%d\n" % group)

    def close(self) -> None:
        """The run has ended."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()
            self._shell = None
