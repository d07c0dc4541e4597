"""Updates of touched rows compared with updates of whole tables: the basis of the model of sparse gradients.

For tables of several sizes, and several numbers of looked-up rows, one step of the optimizer is timed with the dense
and with the sparse gradient, in turns. The model predicts the sparse time from the dense time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.trace.facts import ModuleFact
from skyline.whatif.cost.embedding_rows import SPARSE_STEPS, Table, sparse_step_us

SHAPES = (
    (40_000, 64, 500),
    (40_000, 64, 5_000),
    (100_000, 128, 5_000),
    (30_000, 512, 2_000),
    (200_000, 32, 20_000),
)
LAYER = ModuleFact("table", "Embedding", True, 1, True, {})


@dataclass(frozen=True, slots=True)
class Row:
    """One table and optimizer: the time per step in µs, and the prediction with its range over the measured time."""

    optimizer: str
    rows: int
    width: int
    touched: int
    dense_us: float
    sparse_us: float
    predicted: float
    low: float
    high: float


def stepping(name: str, rows: int, width: int, touched: int, *, sparse: bool) -> torch.optim.Optimizer:
    """An optimizer of one table that has a gradient."""
    torch.manual_seed(0)
    layer = torch.nn.Embedding(rows, width, sparse=sparse)
    layer(torch.randint(0, rows, (touched,))).square().sum().backward()
    return getattr(torch.optim, name)(layer.parameters(), lr=1e-4)


def step_us(optimizer: torch.optim.Optimizer) -> float:
    """The time of one step, in µs."""
    begin = time.perf_counter()
    optimizer.step()
    return (time.perf_counter() - begin) * 1e6


def measure(name: str, shape: tuple[int, int, int], rounds: int) -> Row:
    """Measure in turns. Each round gives one prediction and one measurement."""
    rows, width, touched = shape
    dense, sparse = (stepping(name, *shape, sparse=kind) for kind in (False, True))
    for one in (dense, sparse) * 2:
        one.step()
    pairs = [(step_us(dense), step_us(sparse)) for _ in range(rounds)]
    # Compare the fastest rounds, because other programs only add time.
    now, then = (sorted(one)[rounds // 10] for one in zip(*pairs, strict=True))
    said = sparse_step_us(Table(LAYER, rows, width, float(touched)), SPARSE_STEPS[name], now)
    return Row(name, rows, width, touched, now, then, said.value / then, said.low / then, said.high / then)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse invariant checks")
    torch.set_num_threads(asked.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    found = [measure(name, shape, asked.rounds) for name in SPARSE_STEPS for shape in SHAPES]
    rows = [
        [one.optimizer, f"{one.rows:,} x {one.width}", f"{one.touched:,}", f"{one.dense_us:,.0f}",
         f"{one.sparse_us:,.0f}", f"{one.predicted:.2f} [{one.low:.2f}, {one.high:.2f}]"]
        for one in found
    ]  # fmt: skip
    head = ["optimizer", "table", "indices", "dense, µs", "sparse, µs", "predicted / measured"]
    body = f"One step, {asked.threads} thread(s), the fastest tenth of {asked.rounds} rounds.\n\n{table(head, rows)}"
    print(
        write(
            "sparse_steps",
            "Sparse gradients",
            machine,
            body,
            [asdict(one) for one in found],
            results=asked.results,
        )
    )


if __name__ == "__main__":
    main()
