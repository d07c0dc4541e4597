"""Effects outside the script's own process: programs that it starts and hosts that it connects to."""

from __future__ import annotations

import errno
import functools
import ipaddress
import os
import socket
import subprocess

from . import write_policy
from .trackers import is_tracker_host

REFUSED = (
    "Skyline blocks connections to other machines in a run that a save starts; profile by hand, or "
    "set skyline.network to open"
)
_HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "")


def install(log, *, redirects, local=False):
    """Watch name lookups and program starts; ``local``: refuse connections to every other machine."""
    own = {*_HERE, socket.gethostname()}
    if local:
        # With these variables, libraries that can work offline do not retry.
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
            os.environ.setdefault(name, "1")
        _refuse_connections(log, own)
    _watch_network(log, redirects, local, own)
    _watch_programs(log)


def _refuse_connections(log, own):
    """Refuse socket calls to other machines; sockets of native code are not seen here."""

    def is_here(address):
        host = address[0] if isinstance(address, tuple) and address else None
        host = os.fsdecode(host) if isinstance(host, (str, bytes)) else host
        if not isinstance(host, str) or host in own:
            return True  # not an Internet address, or this machine
        try:
            found = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return found.is_loopback or found.is_unspecified or (mapped is not None and mapped.is_loopback)

    def guarded(name, position):
        native = getattr(socket.socket, name)

        @functools.wraps(native)
        def call(self, *args):
            address = args[position] if -len(args) <= position < len(args) else None
            if self.family in (socket.AF_INET, socket.AF_INET6) and not is_here(address):
                log.note("network", os.fsdecode(address[0]), "refused")
                if name == "connect_ex":
                    return errno.EACCES
                raise PermissionError(errno.EACCES, REFUSED)
            return native(self, *args)

        setattr(socket.socket, name, call)

    guarded("connect", 0)
    guarded("connect_ex", 0)
    guarded("sendto", -1)
    guarded("sendmsg", 3)
    for name in ("gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, _looking_up(getattr(socket, name), log, own))


def _looking_up(native, log, own):
    @functools.wraps(native)
    def look_up(host):
        if os.fsdecode(host) not in own:
            log.note("network", os.fsdecode(host), "refused")
            raise socket.gaierror(socket.EAI_NONAME, REFUSED)
        return native(host)

    return look_up


def _watch_network(log, redirects, local, own):
    native = socket.getaddrinfo

    @functools.wraps(native)
    def getaddrinfo(host, *args, **kwargs):
        name = os.fsdecode(host) if isinstance(host, (str, bytes)) else ""
        if name not in own:
            if redirects and is_tracker_host(name):
                log.note("tracker", name, "held back")
                raise socket.gaierror(socket.EAI_NONAME, "blocked while the script is profiled")
            if local and not _is_numeric_loopback(name):
                log.note("network", name, "refused")
                raise socket.gaierror(socket.EAI_NONAME, REFUSED)
            log.note("network", name, "allowed")
        found = native(host, *args, **kwargs)
        if local:
            # This machine may have other addresses than the loopback address.
            own.update(str(address[4][0]) for address in found)
        return found

    socket.getaddrinfo = getaddrinfo


def _is_numeric_loopback(name):
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False


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
    """The program's name without its arguments, which may contain anything."""
    try:
        first = (
            args.split()[0]
            if isinstance(args, str)
            else os.fsdecode(args if isinstance(args, bytes) else args[0])
        )
    except (TypeError, IndexError, AttributeError):
        return "a program"
    return os.path.basename(os.fspath(first))
