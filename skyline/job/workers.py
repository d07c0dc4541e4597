"""Reads the traces in this process, in several processes of this machine, or on a cluster, with the same code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_BYTES_PER_COMPRESSED = 120
"""The memory for reading a trace, per byte of its file; measured 55 to 100 for gzip, 2 to 5 for plain JSON."""
_BYTES_PER_PLAIN = 7
_BYTES_PER_PROCESS = 60_000_000
_SHARE_OF_AVAILABLE = 0.6
_WORTH_A_PROCESS = 3_000_000
"""The bytes of compressed traces that can be read in about the time that a process takes to start."""


class Workers(Protocol):
    """Applies a function to many items, and gives the results in their order."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """Sends ``work`` and ``items`` to other processes, so they must be module functions and plain values."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """Processes one item after another, in this process."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """The results, computed on demand."""
        return map(work, items)


@dataclass(frozen=True, slots=True)
class Pool:
    """Several processes of this machine."""

    executor: ProcessPoolExecutor

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """The results. Raises UsageError if a process is killed."""
        try:
            yield from self.executor.map(work, items)
        except BrokenProcessPool as error:
            raise UsageError(
                "a process that read a trace was ended from outside, most likely because memory ran out",
                hint="Read fewer traces at a time, for example --processes 1.",
            ) from error


@contextmanager
def on_this_machine(processes: int) -> Generator[Workers, None, None]:
    """Workers of this machine; no process is started for a single one."""
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
    """The number of traces to read at a time, limited by the cores, and by memory for the largest trace."""
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


LOCAL = re.compile(r"local:([1-9]\d*)")
"""Workers that are started here, in place of a scheduler's address."""
_ANSWERS_WITHIN_S = 15


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers of a Dask scheduler. They need Skyline, and the traces under the same paths."""

    client: Any

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """The results. Raises UsageError if workers have no Skyline or are lost."""
        from distributed import KilledWorker

        futures = self.client.map(work, list(items), pure=False)
        try:
            while futures:
                # Releases the result on the cluster once it is here.
                yield futures.pop(0).result()
        except ImportError as error:
            raise UsageError(
                f"a worker of the cluster cannot import what it needs: {error}",
                hint="Install skyline-profiler on the cluster's machines, in the version that is installed here.",
            ) from error
        except KilledWorker as error:
            raise UsageError(
                "a worker of the cluster was lost while it read a trace, most likely because memory ran out",
                hint="Start workers with one thread each (dask worker --nthreads 1) and more memory.",
            ) from error
        finally:
            self.client.cancel(futures)


@contextmanager
def on_cluster(address: str) -> Generator[Workers, None, None]:
    """The workers behind a Dask scheduler's address, as ``tcp://10.0.0.5:8786``.

    Raises:
        UsageError: Dask distributed is not installed, or no scheduler with a worker answers.
    """
    with connected(address) as client:
        yield Cluster(client)


@contextmanager
def connected(address: str) -> Generator[Any, None, None]:
    """A client of a Dask scheduler that has workers. Raises the exceptions of ``on_cluster``."""
    try:
        from distributed import Client
    except ImportError as error:
        raise no_distributed() from error
    try:
        client: Any = Client(address, timeout=_ANSWERS_WITHIN_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}",
            hint="Start one with: dask scheduler; and workers with: dask worker ADDRESS --nthreads 1",
        ) from error
    try:
        if not client.scheduler_info()["workers"]:
            raise UsageError(
                f"the Dask scheduler at {address} has no workers",
                hint=f"Start some with: dask worker {address} --nthreads 1",
            )
        yield client
    finally:
        client.close()


def no_distributed() -> UsageError:
    """The error for a cluster without Dask distributed."""
    return UsageError(
        "Dask distributed, which a cluster needs, is not installed",
        hint="pip install 'skyline-profiler[cluster]'",
    )
