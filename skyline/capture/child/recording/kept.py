"""Memory that the forward passes of modules keep for the backward pass."""

from __future__ import annotations

from bisect import bisect_left


def kept_bytes(allocations, records, paths):
    """Bytes by the path of a module, of what is taken in it or inside and still there when backward work begins.

    ``allocations`` are those of one iteration with the number of a module in ``paths`` as their ``module``. With
    several micro-batches it is the largest that any of them keeps.
    """
    backward = sorted(record["start_us"] for record in records if record["phase"] == "backward")
    taken, kept = {}, {}

    def settle(block, until):
        begins = bisect_left(backward, block["time_us"])
        if block["module"] >= 0 and begins < len(backward) and until >= backward[begins]:
            sizes = kept.setdefault(begins, {})
            sizes[block["module"]] = sizes.get(block["module"], 0) + block["size_bytes"]

    for allocation in sorted(allocations, key=lambda row: row["time_us"]):
        if allocation["size_bytes"] > 0:
            if allocation["phase"] == "forward":
                taken[allocation["address"]] = allocation
        else:
            block = taken.pop(allocation["address"], None)
            if block is not None:
                settle(block, allocation["time_us"])
    for block in taken.values():
        settle(block, float("inf"))
    return _largest(kept.values(), paths)


def _largest(passes, paths):
    """The most that each module keeps in any pass, all modules inside it included."""
    largest = {}
    for sizes in passes:
        total = {}
        for number, size in sizes.items():
            parts = paths[number].split(".")
            for depth in range(1, len(parts) + 1):
                path = ".".join(parts[:depth])
                total[path] = total.get(path, 0) + size
        for path, size in total.items():
            largest[path] = max(largest.get(path, 0), size)
    return largest
