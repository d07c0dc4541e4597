"""Compare the law of samples by batch size with MLPerf's logs: samples to the target at each global batch size.

    python benchmarks/mlperf_batch_law.py --data ../shared/data/published/mlperf_training_v4_0.csv

The law has two numbers for each task. They are fitted on half of the batch sizes (rounded up, at least two), for every
choice of these, and the other batch sizes are scored.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

from machine import Machine
from result_file import table, write

_EXPLAINED = """Samples to the target of MLPerf Training v4.0: the median over the runs at each global batch
size, if the logs give samples or epochs. The law is *samples = a (1 + B/N)*. It is fitted on half of the
batch sizes, for every choice of these, and scored on the others by the relative error of the samples.
*unchanged*: samples do not depend on the batch, and are the mean of the fitted sizes. *between*: the scored
size lies between fitted sizes. *beyond*: it lies outside them. Submitters tuned the runs for each batch size,
as the law assumes."""
_LIMITS = """Three tasks have figures, with three or four batch sizes each. The scored cases are therefore few
and not independent. The other tasks of the file give no samples, so the law cannot be compared with them."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One batch size that was not fitted. Errors are relative to the published samples."""

    task: str
    fitted: tuple[int, ...]
    batch: int
    beyond: bool
    published: float
    law: float
    unchanged: float

    @property
    def law_error(self) -> float:
        return self.law / self.published - 1

    @property
    def unchanged_error(self) -> float:
        return self.unchanged / self.published - 1


def main() -> int:
    options = _options()
    tasks = samples_by_batch(Path(options.data))
    scored = [row for task, samples in tasks.items() for row in scores(task, samples)]
    body = [_EXPLAINED, _points_table(tasks), _score_table(scored), _LIMITS]
    figures = {
        "samples": {task: {str(size): value for size, value in rows.items()} for task, rows in tasks.items()},
        "scored": [asdict(row) for row in scored],
    }
    page = write(
        "mlperf_batch_law",
        "Samples by batch size, compared with MLPerf",
        Machine.here(),
        "\n\n".join(body),
        figures,
    )
    sys.stdout.write(page)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="../shared/data/published/mlperf_training_v4_0.csv")
    return parser.parse_args()


def samples_by_batch(path: Path) -> dict[str, dict[int, float]]:
    """The median of samples by task and global batch size, or of epochs, which are proportional to samples."""
    runs: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            amount = row["samples_count"] or row["epoch_num"]
            if amount and row["global_batch_size"]:
                runs[row["benchmark"]][int(row["global_batch_size"])].append(float(amount))
    return {
        task: {size: median(found) for size, found in sorted(sizes.items())}
        for task, sizes in sorted(runs.items())
        if len(sizes) > 2
    }


def scores(task: str, samples: Mapping[int, float]) -> Iterator[Scored]:
    """Every batch size that is left out of a fit, for every choice of the fitted ones."""
    count = max(2, (len(samples) + 1) // 2)
    for fitted in combinations(samples, count):
        start, slope = fit([(size, samples[size]) for size in fitted])
        mean = sum(samples[size] for size in fitted) / count
        for size, published in samples.items():
            if size not in fitted:
                beyond = not fitted[0] < size < fitted[-1]
                yield Scored(task, fitted, size, beyond, published, start + slope * size, mean)


def fit(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Samples at batch size 0 and their growth, both at least 0, with the least squared relative error."""
    weights = [1 / amount**2 for _, amount in points]
    total = sum(weights)
    mean_size = sum(weight * size for weight, (size, _) in zip(weights, points, strict=True)) / total
    mean = sum(weight * amount for weight, (_, amount) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (size - mean_size) ** 2 for weight, (size, _) in zip(weights, points, strict=True))
    slope = (
        sum(
            weight * (size - mean_size) * (amount - mean)
            for weight, (size, amount) in zip(weights, points, strict=True)
        )
        / spread
    )
    start = mean - slope * mean_size
    if slope < 0:
        return mean, 0.0
    if start < 0:
        squares = sum(weight * size**2 for weight, (size, _) in zip(weights, points, strict=True))
        products = sum(weight * size * amount for weight, (size, amount) in zip(weights, points, strict=True))
        return 0.0, products / squares
    return start, slope


def _points_table(tasks: Mapping[str, Mapping[int, float]]) -> str:
    rows = []
    for task, samples in tasks.items():
        start, slope = fit(list(samples.items()))
        first = next(iter(samples.values()))
        shown = ", ".join(f"{size:,}: {amount / first:.2f}" for size, amount in samples.items())
        critical = f"{start / slope:,.0f}" if slope > 0 else "not bounded"
        rows.append([task, shown, critical])
    return table(["task", "samples by batch size, relative to the first", "N of a fit on all sizes"], rows)


def _score_table(scored: Sequence[Scored]) -> str:
    rows: list[list[str]] = []
    tasks = list(dict.fromkeys(row.task for row in scored))
    for name, group in [
        *((task, [row for row in scored if row.task == task]) for task in tasks),
        ("all, between", [row for row in scored if not row.beyond]),
        ("all, beyond", [row for row in scored if row.beyond]),
        ("all", list(scored)),
    ]:
        law = sorted(abs(row.law_error) for row in group)
        unchanged = sorted(abs(row.unchanged_error) for row in group)
        rows.append(
            [name, str(len(group)), *(f"{median(each):.1%}" for each in (law, unchanged)),
             *(f"{each[-1]:.1%}" for each in (law, unchanged))]
        )  # fmt: skip
    return table(
        ["task", "scored", "median error, law", "unchanged", "greatest error, law", "unchanged"], rows
    )


if __name__ == "__main__":
    sys.exit(main())
