"""Measures the time of predictors: for operators in batches of a thousand, and for the first in a new process.

The thousand operators are drawn from a fixed seed: products, elementwise work, softmax, normalisation and convolutions
in float32, in about the shares of a training step. Every round uses other operators, and the median of the rounds
counts. The first answer is measured in a new process after the import of the predictor, and includes reading its files.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_latency import product, rowwise
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape
from skyline_predictors.predictions import all_predictors

BATCH = 1000
GPUS = ("V100", "H100")
"""A GPU of a measured generation and a GPU of an unmeasured one, which use different code paths."""
BAR_US, BAR_FIRST_MS = 20.0, 300.0
_FIRST = """\
import json, sys
from skyline_predictors.predictions import all_predictors
from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape
predictor = all_predictors()[sys.argv[1]]
import time
began = time.perf_counter()
shape = OperatorShape("aten::mm", ((512, 256), (256, 1024)), ("float32",) * 2, ((512, 1024),), ("float32",), 1 << 28)
predictor.predict([shape], gpu_named(sys.argv[2]))
print(json.dumps((time.perf_counter() - began) * 1e3))
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """The times of one predictor on one GPU."""

    predictor: str
    gpu: str
    batch_us: list[float]
    """Time per operator, by round."""
    first_ms: list[float]


def operators(chance: random.Random) -> list[OperatorShape]:
    """A thousand random operators."""

    def size(most: int) -> int:
        return chance.randint(1, most)

    kinds: list[tuple[int, Callable[[], OperatorShape]]] = [
        (30, lambda: product("linear", 1, size(4096), size(4096), size(4096))),
        (10, lambda: product("bmm", size(128), size(1024), size(128), size(1024))),
        (45, lambda: rowwise(chance.choice(("add", "mul", "gelu", "divu")), size(8192), size(8192))),
        (10, lambda: rowwise(chance.choice(("ln", "softmax")), size(8192), size(4096))),
        (5, lambda: _convolution(chance)),
    ]
    makers = [make for share, make in kinds for _ in range(share)]
    return [chance.choice(makers)() for _ in range(BATCH)]


def _convolution(chance: random.Random) -> OperatorShape:
    images, channels, filters, side, taps = (
        chance.randint(1, 64), chance.randint(3, 512), chance.randint(16, 512), chance.choice((7, 14, 28, 56)),
        chance.choice((1, 3)),
    )  # fmt: skip
    image, weight = (images, channels, side, side), (filters, channels, taps, taps)
    out = (images, filters, side, side)
    flops = 2 * images * filters * side**2 * channels * taps**2
    return OperatorShape("aten::convolution", (image, weight), ("float32",) * 2, (out,), ("float32",), flops)


def measured(name: str, gpu: str, rounds: int) -> Speed:
    """Measure batches in this process, and first answers in new processes."""
    predictor, device = all_predictors()[name], gpu_named(gpu)
    chance = random.Random(1)
    taken: list[float] = []
    for _ in range(rounds + 1):
        asked = operators(chance)
        began = time.perf_counter()
        predictor.predict(asked, device)
        taken.append((time.perf_counter() - began) / BATCH * 1e6)
    first = [
        float(json.loads(subprocess.check_output([sys.executable, "-c", _FIRST, name, gpu], text=True)))
        for _ in range(max(3, rounds // 4))
    ]
    # Drop the first batch, which reads files.
    return Speed(name, gpu, taken[1:], first)


def page(rows: list[Speed]) -> str:
    """The table and the goals."""
    head = [
        "predictor",
        "GPU",
        "an operator of a thousand, µs",
        "slowest round",
        "first answer, ms",
        "slowest",
    ]
    cells = [
        [
            one.predictor,
            one.gpu,
            f"{statistics.median(one.batch_us):.1f}",
            f"{max(one.batch_us):.1f}",
            f"{statistics.median(one.first_ms):.0f}",
            f"{max(one.first_ms):.0f}",
        ]
        for one in rows
    ]
    return table(head, cells) + (
        f"\n\nGoals: {BAR_US:.0f} µs per operator in batches of a thousand, and {BAR_FIRST_MS:.0f} ms to the "
        f"first answer after the import. Medians of {len(rows[0].batch_us)} batches with different "
        f"operators, and of {len(rows[0].first_ms)} new processes."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    names = [name for name, predictor in all_predictors().items() if not hasattr(predictor, "claims")]
    rows = [measured(name, gpu, options.rounds) for name in names for gpu in GPUS]
    title = "Answer times of the predictors"
    print(
        write(
            "predictor_speed",
            title,
            machine,
            page(rows),
            [asdict(row) for row in rows],
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
