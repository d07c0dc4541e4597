"""The parent process of the run: it adopts processes that the run leaves behind, and ends them.

A daemon has no parent, no session and perhaps no environment that would identify it. The kernel reparents it to the
nearest ancestor that is a subreaper, which is this process; so all daemons are among its descendants.
Only Linux has this.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time

_NAME = "skyline-reaper"
_CHILD_SUBREAPER = 36
_END_WITHIN_S = 5.0
_PAUSE_S = 0.01
_LOOK_S = 0.5
_MOST_FILES = 1 << 20
_BLOCKED = (signal.SIGTERM, signal.SIGCHLD)


def continue_below(watched):
    """Continue as the run in a child process. This process ends with the run or with one of ``watched``.

    ``watched`` are ancestors of this process. Returns only in the run, which leads a session.
    """
    if sys.platform != "linux":
        return
    # Signals that arrive before this process has its handlers would otherwise be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getsid(0) != os.getpid():
        os.setsid()
    above = os.getppid()
    run = os.fork()
    if run == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    try:
        _keep(run, above, watched)
    finally:
        os._exit(1)


def _keep(run, above, watched):
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _close_all()
    set_name(_NAME)
    gone = [_opened(pid) for pid in (above, *watched)]
    woken, _ = wake_at_signals()
    told = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
    poll = select.poll()
    for descriptor in (woken, *(one for one in gone if one is not None)):
        poll.register(descriptor, select.POLLIN)
    # If a process cannot be watched, it is polled from time to time.
    pause_ms = None if None not in gone else int(_LOOK_S * 1000)
    status = _reap(run)
    while status is None and not told and os.getppid() == above:
        ready = [descriptor for descriptor, _ in poll.poll(pause_ms)]
        if woken in ready:
            drain(woken)
        status = _reap(run)
        if any(one in ready for one in gone):
            break
    found = _end_all(run)
    _leave(found if status is None else status)


def _opened(pid):
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def _reap(run):
    """The run's status if it has ended, else None; reaps every other ended process too."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == run:
            found = status


def _end_all(run):
    deadline = time.monotonic() + _END_WITHIN_S
    found = None
    while True:
        left = _below(os.getpid())
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        status = _reap(run)
        found = status if found is None else found
        if not left or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE_S)


def _below(root):
    """All descendants of this process that are still running."""
    children = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found, waiting = [], [root]
    while waiting:
        for pid, state in children.get(waiting.pop(), ()):
            waiting.append(pid)
            if state not in (b"Z", b"X"):
                found.append(pid)
    return found


def _leave(status):
    """Exit with the same status or signal as the run."""
    if status is None:
        os._exit(1)
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def _close_all():
    """Close the files inherited from the run: a reader of its output waits until all copies are closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, most if 0 < most < _MOST_FILES else _MOST_FILES)


def wake_at_signals():
    """A pipe whose first end becomes readable at each signal, including SIGCHLD.

    The caller keeps both ends. Signals write to the second one, and Python does not always return its number later:
    from Python 3.12 on, it is lost in a fork that has imported asyncio.
    """
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    return woken, wake


def drain(descriptor):
    """Read everything that has arrived."""
    try:
        while os.read(descriptor, 512):
            pass
    except BlockingIOError:
        pass


def set_name(name):
    """Show ``name`` in process lists if the system allows it; returns the previous name."""
    try:
        with open("/proc/self/comm", "r+") as file:
            before = file.read().strip()
            file.seek(0)
            file.write(name)
            return before
    except OSError:
        return name
