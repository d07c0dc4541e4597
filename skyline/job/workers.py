"""Who reads the traces: this process, several processes of this machine, or a cluster; the same code on each."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from skyline.errors import UsageError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_BYTES_PER_COMPRESSED = 120
"""Memory that reading one trace takes, per byte of its file; measured 55 to 100 for gzip, 2 to 5 for plain JSON."""
_BYTES_PER_PLAIN = 7
_BYTES_PER_PROCESS = 60_000_000
_SHARE_OF_AVAILABLE = 0.6
_WORTH_A_PROCESS = 3_000_000
"""Bytes of compressed traces that are read in about the time that a process takes to start."""


class Workers(Protocol):
    """Something that applies a function to many things, and gives the results in their order."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """``work`` and ``items`` are sent to other processes: functions of modules, and plain values."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """One thing after another, in this process."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """As they are asked for."""
        return map(work, items)


@dataclass(frozen=True, slots=True)
class Pool:
    """Several processes of this machine."""

    executor: ProcessPoolExecutor

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """Raises UsageError where a process is ended from outside."""
        try:
            yield from self.executor.map(work, items)
        except BrokenProcessPool as error:
            raise UsageError(
                "a process that read a trace was ended from outside, most likely because memory ran out",
                hint="Ask for fewer at a time, as in --processes 1.",
            ) from error


@contextmanager
def on_this_machine(processes: int) -> Generator[Workers, None, None]:
    """Workers of this machine; nothing is started for one process."""
    if processes <= 1:
        yield Here()
        return
    # spawn, not fork: the caller may have threads, and a forked child would keep all of its memory.
    executor = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield Pool(executor)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def fitting_processes(files: Sequence[Path]) -> int:
    """Number of traces to read at a time: no more than there are cores for, and room for the largest in memory."""
    if not files:
        return 1
    sizes = [(path.stat().st_size, path.suffix == ".gz") for path in files]
    costs = [size * (_BYTES_PER_COMPRESSED if packed else _BYTES_PER_PLAIN) for size, packed in sizes]
    room = psutil.virtual_memory().available * _SHARE_OF_AVAILABLE
    by_memory = int(room / (_BYTES_PER_PROCESS + max(costs)))
    worth = int(sum(costs) / (_WORTH_A_PROCESS * _BYTES_PER_COMPRESSED))
    return max(1, min(_cores(), len(files), by_memory, worth))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
