"""The kernel's file lock (Landlock): native code and other programs, too, can write only to granted paths.

Landlock needs no privileges, applies to every process that this one starts, and cannot be lifted. Reading is not
restricted. It does not cover modes, times and owners of files; ``file_calls`` protects those. From Linux 6.12 on it
also prevents the run from sending signals to other processes of the user, and from connecting to their abstract
sockets.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_TRUNCATE_SINCE = 3
_SCOPED = 1 << 0 | 1 << 1
"""The scopes for abstract Unix sockets, and for signals."""
_SCOPED_SINCE = 6

LEAST_VERSION = 2
"""The version of Linux 5.19. Version 1 forbids renaming a file into another folder, even within granted paths."""

_MACHINES = ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "i686", "armv7l", "loongarch64")


class Unavailable(Exception):
    """The kernel does not offer the lock, or refuses it; the text gives the reason."""


def version():
    """The version of Landlock that the kernel offers. Raises Unavailable."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise Unavailable("the kernel has no Landlock")
    number = _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if number < LEAST_VERSION:
        raise Unavailable("the kernel's Landlock is too old (Linux 5.19 is needed)")
    return number


def gaps(number):
    """A description of the gaps of a version of Landlock; empty if it covers everything that Skyline needs."""
    missing = []
    if number < _TRUNCATE_SINCE:
        missing.append("truncating files (Linux 6.2 does)")
    if number < _SCOPED_SINCE:
        missing.append("signals and abstract sockets (Linux 6.12 does)")
    return f"this kernel does not cover {', '.join(missing)}" if missing else ""


def restrict(folders, devices):
    """Restrict writes of this thread, and of all that it starts, to these folders. Raises Unavailable.

    In ``folders`` every change is allowed; in ``devices`` only writes to existing files. Returns the version of
    Landlock.
    """
    present = version()
    truncate = _TRUNCATE if present >= _TRUNCATE_SINCE else 0
    everything = _WRITE_FILE | _MAKE_AND_REMOVE | _REFER | truncate
    fields = struct.pack("=Q", everything)
    if present >= _SCOPED_SINCE:
        fields = struct.pack("=QQQ", everything, 0, _SCOPED)
    attributes = ctypes.create_string_buffer(fields, len(fields))
    ruleset = _call(_CREATE_RULESET, attributes, len(fields), 0)
    try:
        for paths, rights in ((folders, everything), (devices, _WRITE_FILE | truncate)):
            for path in paths:
                _grant(ruleset, path, rights)
        if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise Unavailable(os.strerror(ctypes.get_errno()))
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return present


def _grant(ruleset, path, rights):
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a path that does not exist needs no rule
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, folder), 12)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(folder)


def _call(number, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = library.syscall(ctypes.c_long(number), *given)
    if result < 0:
        raise Unavailable(f"the kernel refuses Landlock ({os.strerror(ctypes.get_errno())})")
    return result
