"""Chooses the observed process of a run: the first that trains, either the script's own or one that it started."""

from __future__ import annotations

import json
import os
import sys

from ..channel import Channel
from ..styles import rank

_FILE = "observed"
_ADDRESS = "channel.json"


class Claim:
    """An object in every process of the run that could train; only one process gets a channel to the parent.

    If the script starts several processes, rank 0 gets it, because the others wait for it in their collectives.
    """

    def __init__(self, folder, channel=None):
        self._folder = folder
        self._channels = {os.getpid(): channel} if channel is not None else {}
        self._decided = {}
        self.adopted = False

    def channel(self):
        """The channel to the parent if this process is observed, else None. Called at every iteration."""
        pid = os.getpid()
        if pid not in self._decided:
            self._decided[pid] = self._take(pid)
        return self._decided[pid]

    def _take(self, pid):
        own = self._channels.get(pid)
        if own is None and rank()[0] != 0:
            return None
        try:
            descriptor = os.open(os.path.join(self._folder, _FILE), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError:
            return None
        os.close(descriptor)
        if own is not None:
            return own
        address, key = _read_address(self._folder)
        channel = Channel(address, key)
        self.adopted = True
        channel.send("adopted", pid=pid, name=_process_name())
        return channel


def leave_address(folder, address, key):
    """Store the address at which processes of the script reach the parent, in a file that only the user can read."""
    path = os.path.join(folder, _ADDRESS)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"address": address, "key": key.hex()}, file)


def _read_address(folder):
    with open(os.path.join(folder, _ADDRESS)) as file:
        found = json.load(file)
    return found["address"], bytes.fromhex(found["key"])


def _process_name():
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing.current_process().name if multiprocessing else f"process {os.getpid()}"
