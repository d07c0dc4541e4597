"""Traces read by the machines of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from skyline.errors import UsageError
from skyline.job.workers import Workers

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_ANSWERS_WITHIN_S = 15


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workers of a Dask scheduler. They need Skyline, and the traces under the same paths."""

    client: Any

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        """Raises UsageError where workers have no Skyline or are lost."""
        from distributed import KilledWorker

        futures = self.client.map(work, list(items), pure=False)
        try:
            while futures:
                # A result is let go of on the cluster once it is here.
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
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "a cluster is asked for, but Dask distributed is not installed",
            hint="pip install 'skyline-profiler[cluster]'",
        ) from error
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
        yield Cluster(client)
    finally:
        client.close()
