"""Facts about the machine and the job in a trace, in any of its formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from skyline.trace.kineto.profiler_trace import RecordedDevice


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """The facts that are kept from a file's head and tail."""

    devices: tuple[RecordedDevice, ...]
    rank: int
    world_size: int
    base_ns: int


def facts_of(given: dict[str, Any]) -> TraceFacts:
    """Facts from the decoded values; any may be missing, of a wrong type, or JSON inside a string."""
    job = _mapping(given.get("distributedInfo"))
    return TraceFacts(
        devices=_devices(given.get("deviceProperties")),
        rank=_whole(job.get("rank"), -1),
        world_size=_whole(job.get("world_size"), 0),
        base_ns=_whole(given.get("baseTimeNanoseconds"), 0),
    )


def _devices(given: object) -> tuple[RecordedDevice, ...]:
    listed = _unpacked(given)
    if not isinstance(listed, list):
        return ()
    found: list[RecordedDevice] = []
    for one in cast("list[object]", listed):
        properties = _mapping(one)
        if not properties:
            continue
        name = properties.get("name")
        found.append(
            RecordedDevice(
                index=_whole(properties.get("id"), len(found)),
                name=name if isinstance(name, str) else "",
                memory_bytes=_whole(properties.get("totalGlobalMem"), 0),
                compute_major=_whole(properties.get("computeMajor"), 0),
                compute_minor=_whole(properties.get("computeMinor"), 0),
                multiprocessors=_whole(properties.get("numSms"), 0),
            )
        )
    return tuple(found)


def _unpacked(given: object) -> object:
    if isinstance(given, str):
        try:
            return cast("object", msgspec.json.decode(given))
        except (msgspec.DecodeError, RecursionError):
            return None
    return given


def _mapping(given: object) -> dict[str, Any]:
    unpacked = _unpacked(given)
    return cast("dict[str, Any]", unpacked) if isinstance(unpacked, dict) else {}


def _whole(given: object, otherwise: int) -> int:
    if isinstance(given, str):
        given = int(given) if given.lstrip("-").isdecimal() and len(given) < 20 else None
    if isinstance(given, float) and given.is_integer() and abs(given) < 2**63:
        given = int(given)
    return (
        given if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 2**63 else otherwise
    )
