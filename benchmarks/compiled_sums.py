"""The cost of bias gradients in compiled code: the sum over the rows of a batch behind a ReLU.

    python benchmarks/compiled_sums.py [--rounds 5]

On the way back through a linear layer, PyTorch's own library sums the gradient over the rows of the batch. A compiler
generates that sum, joined with the ReLU before it. Both forms run in turns on gradients of several sizes. The page has
the extra time of the generated form for each number.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
import torch._dynamo
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from torch import Tensor

from skyline.whatif.cost.thread_scaling import gained

_SIZES = ((64, 256), (256, 256), (1024, 256), (2048, 512), (256, 250))
_ITERATIONS, _SETTLING = 200, 20
PART = 0.9
"""The part of the sum that threads divide."""


@dataclass(frozen=True, slots=True)
class Row:
    """A gradient of so many rows and columns: µs of the ReLU's gradient and the sum together."""

    rows: int
    columns: int
    threads: int
    eager_us: float
    compiled_us: float

    @property
    def more_ns(self) -> float:
        """The extra time of the generated form for each number in ns, on one core of the threads."""
        return (
            1e3 * (self.compiled_us - self.eager_us) / (self.rows * self.columns) / gained(PART, self.threads)
        )


def _back(gradient: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    masked = torch.ops.aten.threshold_backward(gradient, result, 0)
    return masked, masked.sum(0)


def measured(rows: int, columns: int, threads: int, rounds: int) -> Row:
    """Both forms in turns."""
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    gradient, result = torch.randn(rows, columns), torch.relu(torch.randn(rows, columns))
    forms = {"eager": _back, "compiled": torch.compile(_back)}
    took: dict[str, list[float]] = {form: [] for form in forms}
    with torch.no_grad():
        for turn in range(rounds):
            for form in forms if turn % 2 else reversed(forms):
                for number in range(_ITERATIONS):
                    began = time.perf_counter()
                    forms[form](gradient, result)
                    if number >= _SETTLING:
                        took[form].append(1e6 * (time.perf_counter() - began))
    return Row(rows, columns, threads, median(took["eager"]), median(took["compiled"]))


def page(rows: list[Row]) -> str:
    """The rows, and the middle of the extra time."""
    head = ["rows", "columns", "threads", "eager", "compiled", "more for each number, of one core"]
    body = [
        [
            str(row.rows),
            str(row.columns),
            str(row.threads),
            f"{row.eager_us:.0f} µs",
            f"{row.compiled_us:.0f} µs",
            f"{row.more_ns:+.2f} ns",
        ]
        for row in rows
    ]
    more = sorted(row.more_ns for row in rows)
    return (
        f"{table(head, body)}\n\n{median(more):.2f} ns in the middle, {more[0]:.2f} to {more[-1]:.2f}. The call of the "
        "compiled function is part of its time, and a few µs of the smallest rows."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    cores = machine.cores
    rows = [measured(*size, threads, options.rounds) for threads in sorted({1, cores}) for size in _SIZES]
    figures = [asdict(row) for row in rows]
    title = "Bias gradients in compiled code"
    print(write("compiled_sums", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
