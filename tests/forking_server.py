"""The process that language servers of tests are forked from: it has imported them, and PyTorch for their runs.

``python tests/forking_server.py DESCRIPTOR`` serves ``forked_servers.py``. A server begins with a process below it that
forks the server's resident processes, since a server with threads cannot fork by itself. Resident processes that need
another interpreter or other variables are started as users start them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from brief_measurements import shorten_server

from skyline.capture import warm_parent
from skyline.capture.process import ENTRY, Start
from skyline.capture.process_family import RUN_TAG
from skyline.capture.warm_pool import _READ_AT_IMPORT

IMPORTED = (
    *("skyline.cli.lsp", "skyline_lsp.session", "skyline_lsp.state"),
    *("torch", "torch._inductor.config", "torch.optim", "torch.utils.data", "torch.profiler"),
)
CHILD = "_skyline_child"
IN_CHILD = ("warm", "run", "stepper")
OWN = ("skyline", "skyline_lsp", "brief_measurements")
FORGOTTEN: list[object] = []
"""Modules that runs are not to see. They stay alive: taking them apart takes longer than a run."""
NAME = "skyline-warm"
"""The name by which tests tell processes that wait from those that run a script."""
RECORDED = Path(__file__).with_name("data") / "linear.profile.json.gz"


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_IMPORT)}


READ = _read_at_import(os.environ)
"""Before PyTorch's compiler sets further ones."""


def main(descriptor: int) -> NoReturn:
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    shorten_server()
    runpy.run_path(str(ENTRY))["load_package"]()
    for name in (*IMPORTED, *(f"{CHILD}.{one}" for one in IN_CHILD)):
        importlib.import_module(name)
    # As in ``preloaded``: a small block is filled once, in place of a large one three times.
    facts = sys.modules[f"{CHILD}.facts"]
    facts._BYTES, facts._TIMES = 1 << 20, 1
    _learn()
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=descriptor)
    subreaper = sys.modules[f"{CHILD}.warm"].subreaper
    before = signal.getsignal(signal.SIGCHLD)
    woken, _ = subreaper.wake_at_signals()
    servers: dict[int, int] = {}
    while True:
        readable = select.select([control, woken], [], [])[0]
        if woken in readable:
            subreaper.drain(woken)
            _report_ended(servers)
        if control in readable:
            message, descriptors, *_ = socket.recv_fds(control, 1 << 18, 4)
            if not message:
                for pid in servers:
                    os.kill(pid, signal.SIGTERM)
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, before)
                _become_server(json.loads(message), descriptors[:3])
            for one in descriptors[:3]:
                os.close(one)
            servers[pid] = descriptors[3]
            control.send(str(pid).encode())


def _learn() -> None:
    """Do once what each server would do again: make the functions of its messages, find the what-ifs and rewrites.

    The answers to one profile import and find whatever a profile's answers need.
    """
    from lsprotocol.types import METHOD_TO_TYPES

    from skyline.trace import store
    from skyline_lsp import session, state, wire

    made = wire.converter()
    wire.converter = lambda: made
    features = session.create_server().protocol.fm
    for method in {*features.features, *features.builtin_features} & METHOD_TO_TYPES.keys():
        request, response, *_ = METHOD_TO_TYPES[method]
        made.get_structure_hook(request)
        if response is not None:
            made.get_unstructure_hook(response)
    state.prepare(store.load(RECORDED))


def _report_ended(servers: dict[int, int]) -> None:
    for pid in tuple(servers):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended = servers.pop(pid)
            os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(ended)


def _become_server(request: dict, standard: list[int]) -> NoReturn:
    if request["session"]:
        os.setsid()
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    # Those of the process above were opened on other kinds of files.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    warm_parent.start_resident = Nursery().start
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    random.seed()
    sys.argv[:] = request["arguments"]
    from skyline.cli.main import main as skyline

    code = 1
    try:
        code = skyline(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
    finally:
        # As an interpreter ends, but without taking apart what it has imported.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Nursery:
    """A process below a server that forks resident processes for it, and ends with it."""

    def __init__(self) -> None:
        self._start = warm_parent.start_resident
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            self._channel.close()
            _fork_residents(theirs)
        theirs.close()

    def start(self, start: Start, descriptor: int) -> subprocess.Popen[bytes] | Adopted:
        """A resident process; an interpreter of its own where this one's imports do not hold for it."""
        if start.interpreter != sys.executable or _read_at_import(start.environment) != READ:
            return self._start(start, descriptor)
        request = {"environment": dict(start.environment), "directory": str(start.working_directory)}
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(request).encode()], [descriptor])
            return Adopted(int(self._channel.recv(64)))


class Adopted:
    """A process that another one started, waited for and ended like one's own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(NAME, timeout or 0.0)
        return 0

    def kill(self) -> None:
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


def _fork_residents(channel: socket.socket) -> NoReturn:
    warm = sys.modules[f"{CHILD}.warm"]
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    # The server sends ^C to itself, and what ended needs no burial.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    names = warm.subreaper.set_name(NAME)
    # A resident process of the product has imported nothing of Skyline, whose hundreds of modules would count as the
    # script's, and be read, parsed and saved with each profile.
    FORGOTTEN.extend(sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] in OWN)
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, 1 << 18, 1)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            channel.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            warm.subreaper.set_name(names)
            os.setsid()
            _become_resident(json.loads(message), *descriptors)
        os.close(descriptors[0])
        channel.send(str(pid).encode())


def _become_resident(request: dict, descriptor: int) -> NoReturn:
    os.chdir(request["directory"])
    # The tag stays where it is: the forks write theirs over it.
    for name in set(os.environ) - {*request["environment"], RUN_TAG}:
        del os.environ[name]
    os.environ.update({name: value for name, value in request["environment"].items() if name != RUN_TAG})
    address, key = sys.modules[f"{CHILD}.warm"].serve(descriptor)
    sys.modules[f"{CHILD}.run"].main(address, key)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
