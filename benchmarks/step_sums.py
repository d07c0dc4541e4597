"""Many measured steps as arrays of operator calls, so that their sums are quickly found for other constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from image_rows import ImageRow, Programs
from numpy.typing import NDArray

from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.board import board
from skyline_predictors.mixed.call_kind import CallKind
from skyline_predictors.mixed.call_reading import as_columns, read_call
from skyline_predictors.mixed.formulas import call_us
from skyline_predictors.shape_reading import deciding_format


class Watched(Mapping[str, float]):
    """Constants that note which of them were asked for."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = values
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.asked.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class _Block:
    """Calls of one kind in one format on one GPU: their columns, the step of each, and how often it calls it."""

    kind: CallKind
    gpu: GpuSpec
    number_format: str
    columns: dict[str, Floats]
    steps: NDArray[np.int64]
    counts: Floats


class StepSums:
    """The predicted times of measured steps, by kind of call."""

    def __init__(self, rows: Sequence[ImageRow], programs: Programs) -> None:
        self.rows: list[ImageRow] = []
        gathered: dict[tuple[CallKind, str, str], list[tuple[tuple[float, ...], int, int]]] = defaultdict(list)
        for row in rows:
            table = programs.table(row)
            if table is None:
                continue
            place = len(self.rows)
            self.rows.append(row)
            for call in table.fused if row.compiled else table.calls:
                shape = call.at(row.batch, row.renamed)
                kind, numbers = read_call(shape)
                gathered[kind, row.gpu, deciding_format(shape)].append((numbers, place, call.count))
        self._blocks = [
            _Block(
                kind,
                gpu_named(gpu),
                number_format,
                as_columns(kind, [numbers for numbers, _, _ in calls]),
                np.array([place for _, place, _ in calls]),
                np.array([float(count) for _, _, count in calls]),
            )
            for (kind, gpu, number_format), calls in gathered.items()
        ]
        self.measured_us = np.array([row.step_ms * 1e3 for row in self.rows])

    def parts(self, constants: Mapping[str, float]) -> list[tuple[CallKind, Floats, set[str]]]:
        """For each block of calls, its share of every step's time and the constants that it depends on."""
        return [self.part(place, constants) for place in range(len(self._blocks))]

    def part(self, place: int, constants: Mapping[str, float]) -> tuple[CallKind, Floats, set[str]]:
        """One of them."""
        block = self._blocks[place]
        watched = Watched(constants)
        on = board(block.gpu, block.number_format, watched)
        times = call_us(block.kind, block.columns, on, watched) * block.counts
        total = np.bincount(block.steps, weights=times, minlength=len(self.rows))
        return block.kind, total, watched.asked

    def by_kind(self, constants: Mapping[str, float]) -> dict[CallKind, Floats]:
        """Time of each step by kind of call."""
        found: dict[CallKind, Floats] = {}
        for kind, total, _ in self.parts(constants):
            found[kind] = found.get(kind, np.zeros(len(self.rows))) + total
        return found


def fitted(
    sums: StepSums, chosen: NDArray[np.bool_], start: Mapping[str, float], ranges: Mapping[str, tuple[float, float]],
    *, rounds: int = 8, weights: Floats | None = None, said: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Constants with which the sums agree best with the measured steps.

    Gauss-Newton on logarithms with Huber's weights; each constant is drawn to where it starts, with a quarter of its
    range as the standard deviation.
    """
    values = dict(start)
    names = [name for name, (low, high) in ranges.items() if high > low]
    spread = {name: (np.log(ranges[name][1]) - np.log(max(ranges[name][0], 1e-3))) / 4 for name in names}
    centre = {name: np.log(max(start[name], 1e-3)) for name in names}
    measured = sums.measured_us[chosen]
    weigh = np.ones(len(measured)) if weights is None else weights[chosen]
    step = 0.03
    damping = 1.0
    best = None
    for round_ in range(rounds):
        parts = sums.parts(values)
        total = sum(one for _, one, _ in parts)
        residual = np.log(total[chosen] / measured)
        strength = weigh / np.maximum(1.0, np.abs(residual) / 0.15)
        noise = 0.1
        cost = float(
            (weigh * np.where(np.abs(residual) < 0.15, residual**2 / 2, 0.15 * (np.abs(residual) - 0.075))).sum()
        ) / noise**2
        cost += sum(((np.log(max(values[name], 1e-3)) - centre[name]) / spread[name]) ** 2 / 2 for name in names)
        if said:
            print(f"round {round_}: cost {cost:.1f}, mean error {np.abs(np.expm1(residual)).mean():.3f}", flush=True)
        if best is None or cost < best[0]:
            best = (cost, dict(values))
            damping = max(damping / 3, 1e-3)
        else:
            values = dict(best[1])
            damping *= 5
            if damping > 1e4:
                break
            parts = sums.parts(values)
            total = sum(one for _, one, _ in parts)
            residual = np.log(total[chosen] / measured)
            strength = weigh / np.maximum(1.0, np.abs(residual) / 0.15)
        used: list[str] = []
        slopes: list[Floats] = []
        for name in names:
            own = [place for place, (_, _, asked) in enumerate(parts) if name in asked]
            if not own:
                continue
            changed = {**values, name: values[name] * np.exp(step)}
            difference = sum(sums.part(place, changed)[1] - parts[place][1] for place in own)
            slopes.append(difference[chosen] / total[chosen] / step)
            used.append(name)
        matrix = np.array(slopes).T
        left = (matrix * strength[:, None]).T @ matrix / noise**2
        right = -(matrix * strength[:, None]).T @ residual / noise**2
        prior = np.array([1 / spread[name] ** 2 for name in used])
        away = np.array([np.log(max(values[name], 1e-3)) - centre[name] for name in used])
        left += np.diag(prior) + damping * np.diag(np.diag(left) + prior)
        move = np.linalg.solve(left, right - prior * away)
        for name, by in zip(used, np.clip(move, -0.5, 0.5).tolist(), strict=True):
            low, high = ranges[name]
            values[name] = float(np.clip(max(values[name], 1e-3) * np.exp(by), low, high))
    return best[1] if best is not None else values
