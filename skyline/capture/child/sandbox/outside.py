"""What the script does outside its own process: programs it starts and hosts it talks to, noted as they happen."""

from __future__ import annotations

import functools
import os
import socket
import subprocess

from . import write_policy
from .trackers import is_tracker_host

_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "")


def install(log, *, redirects):
    """Watch names being looked up and programs being started."""
    _watch_network(log, redirects)
    _watch_programs(log)


def _watch_network(log, redirects):
    native = socket.getaddrinfo
    own = (*_HERE, socket.gethostname())

    @functools.wraps(native)
    def getaddrinfo(host, *args, **kwargs):
        name = os.fsdecode(host) if isinstance(host, (str, bytes)) else ""
        if name not in own:
            if redirects and is_tracker_host(name):
                log.note("tracker", name, "held back")
                raise socket.gaierror(socket.EAI_NONAME, "held back while the script is profiled")
            log.note("network", name, "allowed")
        return native(host, *args, **kwargs)

    socket.getaddrinfo = getaddrinfo


def _watch_programs(log):
    native = subprocess.Popen.__init__

    @functools.wraps(native)
    def __init__(self, args, *rest, **kwargs):
        if write_policy.written_by_user():
            log.note("program", _program(args), "allowed")
        native(self, args, *rest, **kwargs)

    subprocess.Popen.__init__ = __init__
    shell = os.system

    @functools.wraps(shell)
    def system(command):
        if write_policy.written_by_user():
            log.note("program", _program(command), "allowed")
        return shell(command)

    os.system = system


def _program(args):
    """The program's name alone: what follows may hold anything."""
    try:
        first = (
            args.split()[0]
            if isinstance(args, str)
            else os.fsdecode(args if isinstance(args, bytes) else args[0])
        )
    except (TypeError, IndexError, AttributeError):
        return "a program"
    return os.path.basename(os.fspath(first))
