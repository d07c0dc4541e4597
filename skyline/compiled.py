"""Loops over arrays that run in Python or, with numba and enough work, compiled.

A loop is written once, in the subset of Python that numba compiles. Both ways therefore add and compare the same
numbers in the same order, and their results are equal to the last bit. numba is optional and never imported for little
work: its import takes longer than a thousand simulations of a small graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import Any

_SMALL = 2_000
"""Number of visits below which a call runs in Python and does not count towards compiling."""
_LARGE = 30_000
"""Number of visits from which a call compiles at once: a question about a graph simulates it thirty times or more."""
_WORTH_COMPILING = 500_000
"""Number of visits in smaller calls from which importing numba and compiling the loops is cheaper."""


class Way(Enum):
    """The way in which loops run."""

    BY_WORK = "by work"
    AS_WRITTEN = "as written"
    COMPILED = "compiled"


_way: ContextVar[Way] = ContextVar("way", default=Way.BY_WORK)
_lock = Lock()
_visits_so_far = 0
_why_not: str | None = None


@contextmanager
def run_loops(way: Way) -> Generator[None, None, None]:
    """Run the loops of the block in one way, for any amount of work. COMPILED raises ImportError without numba."""
    token = _way.set(way)
    try:
        yield
    finally:
        _way.reset(token)


def why_not_compiled() -> str | None:
    """The reason why loops are not compiled here; None if they are, or if no call was large enough yet."""
    return _why_not


class Loop:
    """A function over arrays; call it with the number of elements that it visits (``visits``), then its arguments.

    ``reads`` and ``writes`` give the types of its arguments, read-only ones first: ``i`` int32, ``f`` float64 and ``b``
    bool arrays; ``n`` an integer and ``x`` a single number. A loop that ``allocates`` needs numba to run compiled.
    """

    def __init__(
        self, function: Callable[..., int], reads: str, writes: str, allocates: bool = False
    ) -> None:
        self._allocates = allocates
        self._function = function
        self._reads = reads
        self._writes = writes
        self._compiled: Callable[..., int] | None = None

    @property
    def is_compiled(self) -> bool:
        """True if the next call runs compiled code, for any amount of work."""
        way = _way.get()
        return way is Way.COMPILED or (self._compiled is not None and way is Way.BY_WORK)

    def __call__(self, visits: int, *arguments: Any) -> int:
        """Run the loop; the last arguments contain its output afterwards."""
        compiled = self._when_worth_it(visits)
        given: list[Any]
        if compiled is not None:
            given = list(map(_as_array, arguments, self._types))
            result = compiled(*given)
        else:
            # Indexing lists from Python is several times faster than indexing arrays.
            given = [a.tolist() if hasattr(a, "tolist") else a for a in arguments]
            result = self._function(*given)
        for place in range(len(self._reads), len(given)):
            if given[place] is not arguments[place]:
                arguments[place][...] = given[place]
        return int(result)

    @property
    def _types(self) -> str:
        return self._reads + self._writes

    def _when_worth_it(self, visits: int) -> Callable[..., int] | None:
        global _visits_so_far, _why_not
        way = _way.get()
        if way is Way.AS_WRITTEN:
            return None
        if way is Way.BY_WORK:
            if self._compiled is not None:
                return self._compiled
            if visits < _SMALL or _why_not is not None:
                return None
            _visits_so_far += visits
            if (self._allocates or visits < _LARGE) and _visits_so_far < _WORTH_COMPILING:
                return None
        # While one thread compiles, which takes seconds, others continue in Python.
        if not _lock.acquire(blocking=way is Way.COMPILED):
            return None
        try:
            if self._compiled is None:
                self._compiled = _compile(self._function, self._reads, self._writes)
        except Exception as error:  # numba fails in many ways if its parts do not match
            _why_not = f"{type(error).__name__}: {error}"
            if way is Way.COMPILED:
                raise
        finally:
            _lock.release()
        return self._compiled


def loop(reads: str, writes: str = "", *, allocates: bool = False) -> Callable[[Callable[..., int]], Loop]:
    """Make a ``Loop`` of a function; see there for the parameters."""
    return lambda function: Loop(function, reads, writes, allocates)


_ELEMENTS = {"i": "int32", "f": "float64", "b": "bool"}


def _as_array(argument: Any, kind: str) -> Any:
    if kind in "nx":
        return int(argument) if kind == "n" else float(argument)
    import numpy as np

    return np.ascontiguousarray(argument, dtype=_ELEMENTS[kind])


def _compile(function: Callable[..., int], reads: str, writes: str) -> Callable[..., int]:
    """Machine code, cached between runs in a separate folder, not next to the installed source.

    Code that does not need numba's runtime is loaded without numba.
    """
    from skyline.object_code import ObjectCode

    # llvmlite has other versions and other code formats. numba handles these itself.
    with suppress(Exception):
        code = ObjectCode(function, reads, writes, _cache_folder())
        return code.load() or code.compile()
    import numba

    def argument(kind: str, changed: bool) -> Any:
        if kind in "nx":
            return numba.int64 if kind == "n" else numba.float64
        element = {"i": numba.int32, "f": numba.float64, "b": numba.boolean}[kind]
        return numba.types.Array(element, 1, "C", readonly=not changed)

    signature = numba.int64(*(argument(k, False) for k in reads), *(argument(k, True) for k in writes))
    config: Any = vars(numba)["config"]
    before = config.CACHE_DIR
    config.CACHE_DIR = before or str(_cache_folder())
    try:
        return numba.njit(signature, cache=True, nogil=True)(function)
    except (OSError, RuntimeError):
        # No folder is writable: compile again in each process.
        return numba.njit(signature, nogil=True)(function)
    finally:
        config.CACHE_DIR = before


def _cache_folder() -> Path:
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "skyline" / "compiled"
