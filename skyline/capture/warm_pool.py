"""The resident processes of a server: one for each interpreter and environment, and only a few at a time."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import OrderedDict

from skyline.capture.process import RunningProcess, Start, Starter, start_fresh
from skyline.capture.warm_parent import CannotFork, WarmParent

logger = logging.getLogger(__name__)

_MOST_PARENTS = 2
"""Each process occupies about 300 MB."""
_READY_TIMEOUT_S = 60.0
_READ_AT_IMPORT = (
    "ATEN_", "BLIS_", "CONDA_", "DNNL_", "GOMP_", "KINETO_", "KMP_", "LANG", "LC_", "LD_", "MALLOC_",
    "MKL_", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_", "PATH", "PYTHON", "PYTORCH_", "TORCH",
    "VIRTUAL_ENV",
)  # fmt: skip
"""Prefixes of variables that are read while an interpreter starts and imports; the fork sets all others."""

_Key = tuple[str, str, tuple[tuple[str, str], ...], bool]


class WarmPool:
    """Starts runs by forking resident processes, or in fresh processes if that fails.

    Forking after imports is safe only on Linux; elsewhere every run starts in a fresh process.
    """

    def __init__(self, most: int = _MOST_PARENTS, *, fallback: Starter = start_fresh) -> None:
        self._most = most
        self._fallback = fallback
        self._parents: OrderedDict[_Key, WarmParent] = OrderedDict()
        self._retired: list[WarmParent] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self, start: Start) -> RunningProcess:
        """A run's process. The first run in an environment waits until torch is imported there."""
        if sys.platform == "linux" and not self._closed.is_set():
            parent = None
            try:
                parent = self._parent(start)
                if parent.wait_ready(_READY_TIMEOUT_S, start.cancel):
                    return parent.fork(start)
            except OSError as error:
                logger.info("starting a fresh process, since there is no resident one (%s)", error)
            if parent is not None and not start.cancel.is_set():
                self._give_up(parent)
        return self._fallback(start)

    def close(self) -> None:
        """End all resident processes, with the runs that they started."""
        self._closed.set()
        with self._lock:
            parents = [*self._parents.values(), *self._retired]
            self._parents.clear()
            self._retired.clear()
        for parent in parents:
            parent.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """IDs of the resident processes."""
        with self._lock:
            return tuple(parent.pid for parent in self._parents.values())

    def _give_up(self, parent: WarmParent) -> None:
        """Retire a process that does not answer, so that the next run does not wait for it."""
        with self._lock:
            known = next((key for key, one in self._parents.items() if one is parent), None)
            if known is not None:
                self._retired.append(self._parents.pop(known))

    def _parent(self, start: Start) -> WarmParent:
        key = _key(start)
        with self._lock:
            if self._closed.is_set():
                raise CannotFork("the server is closing")
            parent = self._parents.get(key)
            if parent is not None and not parent.is_current(start.environment):
                self._retired.append(self._parents.pop(key))
                parent = None
            if parent is None:
                parent = self._parents[key] = WarmParent(start)
            self._parents.move_to_end(key)
            for other in [one for one in self._parents if one != key]:
                if len(self._parents) <= self._most:
                    break
                self._retired.append(self._parents.pop(other))
            # A retired process is closed only once the runs that it forked have ended.
            for retired in [one for one in self._retired if not one.busy]:
                self._retired.remove(retired)
                retired.close()
            return parent


def _key(start: Start) -> _Key:
    read = tuple(
        sorted((name, value) for name, value in start.environment.items() if name.startswith(_READ_AT_IMPORT))
    )
    # The folder matters only if ``PYTHONPATH`` has relative entries.
    entries = start.environment.get("PYTHONPATH", "").split(os.pathsep)
    relative = any(entry and not os.path.isabs(entry) for entry in entries)
    return start.interpreter, str(start.working_directory) if relative else "", read, start.plain
