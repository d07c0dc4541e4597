"""The channel to the parent process: JSON messages in both directions. The run ends when the parent is gone."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Client

_LAST_WORDS = "last-words"
# Bound at import, before the script can replace them.
_dumps, _loads, _getpid, _open = json.dumps, json.loads, os.getpid, open


class Channel:
    """Sends events and returns commands. Lives as long as the process.

    A daemon thread reads commands, so that "where" is answered while the script computes, and so that the script and
    its workers end when the parent dies.
    """

    def __init__(self, address, key):
        self._connection = Client(address, authkey=key)
        self._commands = queue.Queue()
        self._send_lock = threading.Lock()
        self._main_thread = threading.main_thread().ident
        self._owner = _getpid()
        self._scratch = None
        threading.Thread(target=self._listen, name="skyline-channel", daemon=True).start()

    def send(self, event, **fields):
        """Send an event to the parent; does nothing in a forked worker that inherited the channel."""
        if _getpid() != self._owner:
            return
        message = _dumps({"event": event, **fields}).encode()
        with self._send_lock:
            try:
                self._connection.send_bytes(message)
            except OSError:
                self._leave_word()
                end_group()

    def next_command(self):
        """Wait for the parent's next command, and return it."""
        return self._commands.get()

    def _listen(self):
        while True:
            try:
                message = _loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                end_group()
            if message["do"] == "where":
                self.send("where", stack=self._stack())
            elif message["do"] == "stop":
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
            else:
                self._scratch = message.get("scratch", self._scratch)
                self._commands.put(message)

    def _leave_word(self):
        """Store the reason for the end in a file: the parent may still exist if the script closed the channel."""
        if self._scratch is None:
            return
        try:
            with _open(os.path.join(self._scratch, _LAST_WORDS), "w") as file:
                file.write(
                    "The script closed file descriptors that it did not open, including the one to Skyline"
                )
        except OSError:
            pass

    def _stack(self):
        frame = sys._current_frames().get(self._main_thread)
        rows = traceback.extract_stack(frame) if frame else []
        # Frames of generated code may have no line.
        return [{"file": row.filename, "line": row.lineno or 0, "function": row.name} for row in rows]


def end_group():
    """End the script and every process that it started: the parent started the run as one group."""
    try:
        os.killpg(os.getpgrp(), signal.SIGKILL)
    finally:
        os._exit(1)
