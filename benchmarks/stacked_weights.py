"""Times the updates of small tensors, and finds the size from which glibc maps blocks: constants of ``fuse_jobs``.

    python benchmarks/stacked_weights.py [--rounds 20]

Each operator of an Adam update runs in turns on tensors of several sizes that stay in the caches. The time per
additional number is the bytes of the arguments over a rate, because the times of both sizes include the calls. The size
from which glibc maps a separate block (``M_MMAP_THRESHOLD``) grows with the freed blocks. A process that has imported
PyTorch, and a process that has not, query ``mallinfo2`` to see if a block was mapped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.whatif.catalogue.models.stacked_weights import FREED_BEFORE, UPDATE_BYTES_PER_US
from skyline.whatif.constant import Constant

SIZES = (1 << 12, 1 << 14, 1 << 17, 1 << 19)
_LEAST_S = 1e-3
_FLOAT_BYTES = 4
_MAPPED = """
import ctypes
{imported}

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Info
library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
low, high = 64 << 10, 33 << 20
while high - low > 4096:
    size = (low + high) // 2
    before = library.mallinfo2().hblks
    # Nothing is freed: that would change the size.
    library.malloc(size)
    low, high = (low, size) if library.mallinfo2().hblks > before else (size, high)
print(high)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """Time of an operator of the update in µs by size of the tensor, and the bytes of its arguments per number."""

    operator: str
    bytes_each: int
    us: tuple[float, ...]

    @property
    def rates(self) -> list[float]:
        """Bytes per µs of the additional numbers of each size. Sizes without additional time are left out."""
        pairs = zip(pairwise(SIZES), pairwise(self.us), strict=True)
        return [
            self.bytes_each * (many - few) / (later - sooner)
            for (few, many), (sooner, later) in pairs
            if later > sooner
        ]


def operators(numbers: int) -> dict[str, tuple[Callable[[], object], int]]:
    """The operators of Adam's update of one tensor, with the number of tensors among their arguments."""
    weight, gradient, mean, square, made = (torch.rand(numbers) + 1 for _ in range(5))
    return {
        "lerp_": (lambda: mean.lerp_(gradient, 0.1), 2),
        "mul_": (lambda: square.mul_(0.999), 1),
        "addcmul_": (lambda: square.addcmul_(gradient, gradient, value=1e-3), 3),
        "sqrt": (square.sqrt, 1),
        "div": (lambda: made / 0.9, 1),
        "add_": (lambda: made.add_(1e-8), 1),
        "addcdiv_": (lambda: weight.addcdiv_(mean, made, value=-1e-6), 3),
    }


def measured(rounds: int) -> list[Row]:
    """Every operator by size. The fastest round counts, because other programs only add time."""
    least: dict[str, list[float]] = {name: [float("inf")] * len(SIZES) for name in operators(1)}
    ways = [operators(numbers) for numbers in SIZES]
    for turn in range(rounds + 1):
        for place, way in enumerate(ways):
            for name, (run, _) in way.items():
                count, began = 0, time.perf_counter()
                while count < 2 or time.perf_counter() - began < _LEAST_S:
                    run()
                    count += 1
                if turn:
                    took_us = 1e6 * (time.perf_counter() - began) / count
                    least[name][place] = min(least[name][place], took_us)
    return [
        Row(name, _FLOAT_BYTES * tensors, tuple(least[name])) for name, (_, tensors) in operators(1).items()
    ]


def mapped_from(imported: str = "") -> int:
    """The size in bytes from which a new process maps a separate block, after running the import ``imported``."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("MALLOC_")}
    code = _MAPPED.format(imported=imported)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    return int(done.stdout)


def page(rows: list[Row], plain: int, with_torch: int) -> str:
    head = ["operator", *(f"{numbers:,} numbers" for numbers in SIZES), "GB/s of further numbers"]
    body = [
        [
            row.operator,
            *(f"{us:.2f} µs" for us in row.us),
            ", ".join(f"{rate / 1e3:.0f}" for rate in row.rates),
        ]
        for row in rows
    ]
    whole = Row(
        "all",
        sum(row.bytes_each for row in rows),
        tuple(map(sum, zip(*(row.us for row in rows), strict=True))),
    )
    rates = [rate / 1e3 for rate in whole.rates]
    alone = [rate / 1e3 for row in rows for rate in row.rates]
    return (
        f"{table(head, body)}\n\n{torch.get_num_threads()} threads. All operators together: {min(rates):.0f} "
        f"to {max(rates):.0f} GB/s; alone: {min(alone):.0f} to {max(alone):.0f} GB/s; in the model: "
        f"{_told(UPDATE_BYTES_PER_US, 1e3)} GB/s. glibc maps a separate block from {plain / 1e6:.2f} MB on. "
        f"In a process that has imported PyTorch, it does so from {with_torch / 1e6:.2f} MB on. The model "
        f"has {_told(FREED_BEFORE, 1e6)} MB."
    )


def _told(constant: Constant, unit: float) -> str:
    value, low, high = (one / unit for one in constant.ends)
    return f"{value:.3g}" if low == high else f"{value:.3g} ({low:.3g} to {high:.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    torch.manual_seed(0)
    machine = Machine.here()
    warn_when_busy(machine)
    rows = measured(asked.rounds)
    plain, with_torch = mapped_from(), mapped_from("import torch")
    figures = {
        "operators": [asdict(row) | {"rates": row.rates} for row in rows],
        "mapped_from_bytes": {"plain": plain, "torch": with_torch},
    }
    title = "Updates of small tensors, and the size from which blocks are mapped"
    print(
        write(
            "stacked_weights", title, machine, page(rows, plain, with_torch), figures, results=asked.results
        )
    )


if __name__ == "__main__":
    main()
