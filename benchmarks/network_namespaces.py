"""Two new network namespaces, joined by a pair of virtual links with an adjustable rate."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

_PREFIX = "10.77.0."
_BURST_KIB = 64
"""The kernel's largest packet on a virtual link is 64 KiB, which a smaller burst would split."""
_QUEUE_MIB = 4
"""Queue length. It is longer than any TCP window here, so that nothing is dropped and sent again."""


class LinkedNamespaces:
    """Two joined namespaces, which end with this object or with this process."""

    def __init__(self) -> None:
        self._holders = [_held() for _ in range(2)]
        there = str(self._holders[1].pid)
        self._within(
            0, "ip", "link", "add", self.interface(0), "type", "veth", "peer", "name", self.interface(1),
            "netns", there,
        )  # fmt: skip
        for place in range(2):
            self._within(
                place, "ip", "address", "add", f"{self.address(place)}/24", "dev", self.interface(place)
            )
            self._within(place, "ip", "link", "set", self.interface(place), "up")
            self._within(place, "ip", "link", "set", "lo", "up")

    def __enter__(self) -> LinkedNamespaces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()

    @staticmethod
    def interface(place: int) -> str:
        """The name of the link inside a namespace."""
        return f"skyline{place}"

    @staticmethod
    def address(place: int) -> str:
        """The address of a namespace."""
        return f"{_PREFIX}{place + 1}"

    def command(self, place: int, *command: str) -> list[str]:
        """A command that runs inside a namespace."""
        return ["nsenter", "-t", str(self._holders[place].pid), "-n", *command]

    def shape(self, gbit_s: float | None) -> None:
        """Set the rate of each direction. None removes the limit."""
        for place in range(2):
            if gbit_s is not None:
                self._within(place, *shaping(self.interface(place), gbit_s))
            elif "tbf" in self.shaped(place):
                self._within(place, "tc", "qdisc", "del", "dev", self.interface(place), "root")

    def shaped(self, place: int) -> str:
        """The limit of one direction in the words of ``tc``."""
        return self._within(place, "tc", "qdisc", "show", "dev", self.interface(place))

    def _within(self, place: int, *command: str) -> str:
        return _run(self.command(place, *command))


def shaping(interface: str, gbit_s: float) -> tuple[str, ...]:
    """The command that limits what an interface sends."""
    return (
        "tc", "qdisc", "replace", "dev", interface, "root", "tbf", "rate", f"{gbit_s * 1e6:.0f}kbit",
        "burst", f"{_BURST_KIB}kb", "limit", f"{_QUEUE_MIB}mb",
    )  # fmt: skip


def why_not() -> str:
    """The reason why namespaces with shaped links cannot be made here. Empty if they can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    missing = [name for name in ("unshare", "nsenter", "ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found: install iproute2 and util-linux"
    try:
        with LinkedNamespaces() as linked:
            linked.shape(1.0)
    except (OSError, RuntimeError) as error:
        also = "" if os.geteuid() == 0 else "; run as root, or under unshare --map-root-user"
        return f"{error}{also}"
    return ""


def _held() -> subprocess.Popen[bytes]:
    """A process that keeps its own namespace alive until its input ends."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stderr is not None
    if not holder.stdout.readline():
        raise RuntimeError(f"no namespace: {holder.stderr.read().decode().strip()}")
    return holder


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[4:])}: {done.stderr.strip()}")
    return done.stdout
