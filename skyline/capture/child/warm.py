"""The resident process: it imports torch and forks a process for each run, so that runs need not import it.

It runs no user code, starts no threads and does not touch CUDA, so that its forks are like an interpreter that has
just imported torch.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
from multiprocessing import reduction
from multiprocessing.connection import Connection

from . import hidden_modules, subreaper, user_code

PLAIN = "--plain"
"""Argument of a resident process that imports nothing ahead of the scripts."""
_NAME = "skyline-warm"
_RUN_TAG = "SKYLINE_RUN"
_IMPORTED = (
    "torch",
    "torch.optim",
    "torch.utils.data",
    "torch.profiler",
    __package__ + ".run",
    __package__ + ".stepper",
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def serve(descriptor, *, ahead=False):
    """Fork at the server's request until the server is gone. Returns only in forks, with the run's address and key.

    ``ahead`` also imports modules that most scripts import later; see ``hidden_modules``.
    """
    given = socket.socket(fileno=descriptor)
    control = Connection(os.dup(descriptor))
    names = subreaper.set_name(_NAME)
    # Imported objects stay alive: garbage collection would take a fifth of the import time.
    gc.disable()
    try:
        for name in _IMPORTED:
            importlib.import_module(name)
    except ImportError as error:
        _send(control, {"event": "unable", "message": str(error)})
        os._exit(0)
    if ahead and not hidden_modules.prepare():
        # Restart without these imports, and leave them to the runs.
        os.execv(sys.executable, [*sys.orig_argv, PLAIN])
    # The result is cached here, because otherwise each run would compute it (see ``run``).
    user_code.imported_files()
    gc.collect()
    # Later collections ignore imported objects, so that their pages stay shared with the forks.
    gc.freeze()
    gc.enable()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    woken, wake = subreaper.wake_at_signals()
    _send(control, {"event": "ready", "files": _foundations(), "variables": hidden_modules.variables_read()})
    running = set()
    above = os.getppid()
    while True:
        readable = select.select([control, woken], [], [])[0]
        if woken in readable:
            subreaper.drain(woken)
            _report_ended(control, running)
        if control in readable:
            request, descriptors = _receive(control, given)
            if request is None:
                _leave(running)
            pid, started = _fork()
            if pid == 0:
                # From here on, tracebacks go to the output of the run.
                os.dup2(descriptors[0], 2)
                signal.set_wakeup_fd(-1)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                control.close()
                given.close()
                for end in (woken, wake):
                    os.close(end)
                subreaper.continue_below((above,))
                _become(request, *descriptors)
                subreaper.set_name(names)
                os.write(started, b"1")
                os.close(started)
                return request["address"], bytes.fromhex(request["key"])
            for one in descriptors:
                os.close(one)
            running.add(pid)
            # Wait until the fork's subreaper handles requests to end the run.
            os.read(started, 1)
            os.close(started)
            _send(control, {"event": "forked", "number": request["number"], "pid": pid})


def _fork():
    """(pid, reading end) in the parent, (0, writing end) in the fork."""
    reading, writing = os.pipe()
    pid = os.fork()
    os.close(reading if pid == 0 else writing)
    return pid, writing if pid == 0 else reading


def _become(request, output, stdin=None):
    """Set up the state of a fresh process in this fork, which leads a session already."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    if stdin is not None:
        os.dup2(stdin, 0)
        os.close(stdin)
    os.chdir(request["directory"])
    _tag(request["environment"].get(_RUN_TAG, ""))
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    random.seed()
    # Only the CPU needs a new seed: generators of other devices do not exist yet, and start alike in every process.
    sys.modules["torch"].default_generator.seed()
    numpy_random = hidden_modules.find("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _tag(tag):
    """Write the run's tag into the initial environment of this process, where other processes look for it."""
    place = ctypes.CDLL(None).getenv
    place.restype = ctypes.c_void_p
    if len(os.environ.get(_RUN_TAG, "")) == len(tag.encode()):
        ctypes.memmove(place(_RUN_TAG.encode()), tag.encode(), len(tag))


def _foundations():
    """Files whose change makes the imports outdated, and folders that change when something is installed."""
    files = [sys.executable]
    for folder, _, names in os.walk(user_code.FOLDER):
        files += [os.path.join(folder, name) for name in names if name.endswith(".py")]
    files += [entry for entry in sys.path if entry.endswith("-packages") and os.path.isdir(entry)]
    for name in ("torch", "numpy"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            files += [file, os.path.join(os.path.dirname(file), "version.py")]
    return [os.path.abspath(file) for file in files]


def _report_ended(control, running):
    while running:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in running:
            running.discard(pid)
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            _send(control, {"event": "ended", "pid": pid, "status": code})


def _leave(running):
    """End all runs and exit: the server is gone."""
    for pid in running:
        try:
            os.kill(pid, signal.SIGTERM)  # its subreaper ends the whole run
        except OSError:
            pass
    for pid in running:
        try:
            os.waitpid(pid, 0)
        except OSError:
            pass
    os._exit(0)


def _send(control, message):
    try:
        control.send_bytes(json.dumps(message).encode())
    except OSError:
        pass  # the server is gone: the next read will show it


def _receive(control, given):
    """A request and the descriptors sent with it; (None, None) once the server is gone."""
    try:
        return json.loads(control.recv_bytes()), reduction.recvfds(given, 2)
    except (EOFError, OSError):
        return None, None
