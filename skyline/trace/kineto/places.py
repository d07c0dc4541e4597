"""The place of each event: a host thread, or a stream of a device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import HostThread
from skyline.trace.kineto.table import small

_STREAM = re.compile(r"(?:stream\s*)?(-?\d{1,18})")


@dataclass(frozen=True, slots=True)
class TracePlaces:
    """Columns of a trace with the places of its events, and the threads that they index."""

    thread: NDArray[np.int32]
    device: NDArray[np.int32]
    stream: NDArray[np.int32]
    threads: tuple[HostThread, ...]


def places_of(
    written: Sequence[tuple[int | str, int | str]],
    names: dict[tuple[str, str], str],
    place: NDArray[np.int32],
    category: NDArray[np.uint8],
    device: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> TracePlaces:
    """Threads of host events; devices and streams of the others, from the arguments or else from the place.

    ``written`` are the (process, thread) pairs of the file, ``place`` is the row of each event in them. A number and a
    text may refer to the same thread: profiler versions mix them in one file.
    """
    on_gpu = category >= int(Category.GPU_ANNOTATION)
    keys = [(str(process), str(thread)) for process, thread in written]
    used = np.zeros(len(keys), bool)
    used[place[~on_gpu]] = True
    rows: dict[tuple[str, str], int] = {}
    thread_of = np.array(
        [
            rows.setdefault(key, len(rows)) if used[number] else -1
            for number, key in enumerate(keys)
        ],
        np.int32,
    )  # fmt: skip
    threads = tuple(HostThread(process, thread, names.get((process, thread), "")) for process, thread in rows)
    place_device = np.array([_number(process) for process, _ in keys], np.int64)
    place_stream = np.array([_number(thread) for _, thread in keys], np.int64)
    device = np.where(device < 0, place_device[place], device)
    stream = np.where(stream < 0, place_stream[place], stream)
    nowhere = np.int32(-1)
    return TracePlaces(
        thread=np.where(on_gpu, nowhere, thread_of[place]),
        device=np.where(on_gpu, small(device), nowhere),
        stream=np.where(on_gpu, small(stream), nowhere),
        threads=threads,
    )


def _number(text: str) -> int:
    found = _STREAM.fullmatch(text)
    return int(found.group(1)) if found else -1
