"""Which files are the traces of a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline.errors import UsageError

_ENDINGS = (".json", ".json.gz")
_OTHERS = (".profile.json.gz", "manifest.json", "_et.json", "_et.json.gz")
"""Profiles of Skyline's own, lists of files, and PyTorch's execution traces."""


def trace_files(named: Sequence[str]) -> tuple[Path, ...]:
    """The files that were named, and those in the folders that were: directly, else in folders below.

    Raises:
        UsageError: something named is not there, or there is no trace in it.
    """
    found: dict[Path, None] = {}
    for name in named:
        path = Path(name)
        if path.is_dir():
            inside = [one for one in sorted(path.iterdir()) if _is_trace(one)]
            inside = inside or [one for one in sorted(path.rglob("*")) if _is_trace(one)]
            if not inside:
                raise UsageError(
                    f"{name} holds no trace",
                    hint="PyTorch profiler traces end in .json or .json.gz; each rank writes one.",
                )
            found.update((one.resolve(), None) for one in inside)
        elif path.is_file():
            found[path.resolve()] = None
        else:
            raise UsageError(f"{name} is not there", hint="Name a folder of traces, or trace files.")
    return tuple(found)


def _is_trace(path: Path) -> bool:
    return path.name.endswith(_ENDINGS) and not path.name.endswith(_OTHERS) and path.is_file()
