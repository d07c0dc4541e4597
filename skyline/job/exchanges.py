"""Collective operations as they ran on one rank, including the wait for the others."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times, coded
from skyline.graph.rules.names import names_of
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_KINDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv", "barrier",
    "reduce", "gather", "scatter", "send", "recv",
)  # fmt: skip
"""The kinds; longer words come before words that they contain."""
POINT_TO_POINT = frozenset({"send", "recv"})
"""Operations between two ranks, with different names on either side."""
_ON_HOST = re.compile(r"(gloo|mpi|ucc):\w+")


@dataclass(frozen=True, slots=True, eq=False)
class Exchanges:
    """A row per collective, sorted by start; times in µs on the trace's own clock.

    A channel is a place where collectives run one after another, in the same order on every rank: a process
    group if the trace names it, else a stream, else all exchanges of the host's threads.
    """

    kinds: tuple[str, ...]
    kind: Ids
    channels: tuple[str, ...]
    channel: Ids
    elements: Indices
    """The number of input elements; 0 if unknown."""
    start_us: Times
    end_us: Times
    event: Ids
    """The row of the trace."""

    def __len__(self) -> int:
        return len(self.start_us)


def kind_of(name: str) -> str:
    """``all_reduce`` for ``ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)``, ``gloo:all_reduce`` and ``allreduce``."""
    plain = name.lower().replace("_", "")
    return next((kind for kind in _KINDS if kind.replace("_", "") in plain), "other")


def exchanges(trace: ProfilerTrace) -> Exchanges:
    """The collectives of a trace: kernels of NCCL and RCCL; without any, those of gloo, MPI and UCC on host threads.

    ``nccl:…`` annotations are ignored, since on the host they only last as long as the launch. Host
    collectives next to kernels are ignored as well: GPU jobs occasionally use them to agree on something.
    """
    chosen = (trace.category == Category.KERNEL) & names_of(trace).collective
    if not chosen.any():
        chosen = (trace.category == Category.ANNOTATION) & _named(trace, _is_host_collective)
    event = np.flatnonzero(chosen).astype(np.int32)
    devices = len(np.unique(trace.device[event]))
    start = trace.start_us[event]
    recorded = dict(zip(trace.collectives.event.tolist(), range(len(trace.collectives)), strict=True))
    kinds: list[str] = []
    channels: list[str] = []
    elements = np.zeros(len(event), np.int64)
    for place, row in enumerate(event.tolist()):
        fact = recorded.get(row, -1)
        known = trace.strings[int(trace.collectives.name[fact])] if fact >= 0 else ""
        kinds.append(kind_of(known or trace.name_of(row)))
        channels.append(_channel(trace, row, fact, devices))
        if fact >= 0:
            elements[place] = trace.collectives.elements_in[fact]
    kind_table, kind = coded(kinds)
    channel_table, channel = coded(channels)
    return Exchanges(
        kind_table, kind, channel_table, channel, elements, start, start + trace.duration_us[event], event
    )


def _channel(trace: ProfilerTrace, row: int, fact: int, devices: int) -> str:
    if trace.thread[row] >= 0:
        return trace.name_of(row).partition(":")[0]
    if fact >= 0:
        group = trace.strings[int(trace.collectives.group[fact])]
        ranks = trace.strings[int(trace.collectives.ranks[fact])]
        if group or ranks:
            return f"group {group} {ranks}".strip()
    device = f"{int(trace.device[row])}." if devices > 1 else ""
    return f"stream {device}{int(trace.stream[row])}"


def _is_host_collective(name: str) -> bool:
    return _ON_HOST.fullmatch(name) is not None


def _named(trace: ProfilerTrace, asked: Callable[[str], bool]) -> Flags:
    wanted = np.fromiter(map(asked, trace.strings), np.bool_, len(trace.strings))
    return wanted[trace.name]
