"""What a GPU's memory holds beside the tensors of the script."""

from __future__ import annotations

import os
import re


def device_memory(devices):
    """Facts in the shape of ``skyline.trace.facts.DeviceMemoryFact``; None where there is no such device.

    Of several devices that the script computes on, all of it together; but only as much is free as it can use, spread
    over them as it is.
    """
    told = devices.free_and_total_bytes()
    if told is None:
        return None
    free, total = told
    parts = split(devices.stats(), free, total, _own_bytes(devices))
    room, _ = devices.room_and_capacity_bytes()
    return dict(parts, free_bytes=room)


def split(stats, free, total, own_bytes=None):
    """The device's memory by who holds it.

    ``stats`` are the caching allocator's, ``own_bytes`` what the driver says this process holds. Where the driver
    says nothing, the context cannot be told from other processes: all that is beside the allocator counts as context.
    """
    reserved = stats.get("reserved_bytes.all.current", 0)
    used = total - free
    own = min(used, own_bytes) if own_bytes else used
    return {
        "total_bytes": total,
        "free_bytes": free,
        "allocated_peak_bytes": stats.get("allocated_bytes.all.peak", 0),
        "reserved_bytes": stats.get("reserved_bytes.all.peak", reserved),
        "context_bytes": max(0, own - reserved),
        "other_process_bytes": max(0, used - max(own, reserved)),
    }


def _own_bytes(devices):
    """This process's share as the driver tells PyTorch, which needs the driver's bindings for that; None else."""
    try:
        shares = [share_of(os.getpid(), printed) for printed in devices.processes()]
    except Exception:
        return None  # no right to ask, a device that the driver does not know by this name
    return None if None in shares else sum(shares)


def share_of(process, printed):
    """The bytes of one process in what ``torch.cuda.list_gpu_processes`` prints; None where it is not listed.

    It is not where the bindings are missing, or where a container has process numbers of its own.
    """
    found = re.search(rf"process +{process} uses +([0-9.]+) MB", printed)
    return round(float(found.group(1)) * 2**20) if found else None
