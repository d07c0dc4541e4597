"""Ends a run when this process is gone, however it went and whatever the run is doing then."""

from __future__ import annotations

import subprocess
from pathlib import Path

_WAIT_AND_KILL = """
trap "" HUP INT TERM
read -r _
if [ "$2" = kept ]; then
    kill -s TERM "$0"
    n=0
    while kill -s 0 "$0" && [ $n -lt 60 ]; do sleep 0.1; n=$((n + 1)); done
fi
kill -s KILL -- "-$0"
sleep 0.2
rm -rf -- "$1"
"""


class Lifeline:
    """A tiny shell that waits for the end of its standard input, which is ours, and then clears away a run.

    The run listens for our end itself, but cannot while native code keeps the interpreter from running. With a
    keeper (``kept``) that one is told, since it knows what left the group.
    """

    def __init__(self, group: int, scratch: Path, *, kept: bool = False) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_AND_KILL, str(group), str(scratch), "kept" if kept else ""],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            pass  # no shell here: the run's own listening has to do

    def close(self) -> None:
        """The run has ended."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            if self._shell.stdin is not None:
                self._shell.stdin.close()
            self._shell = None
