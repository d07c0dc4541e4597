"""Many measured steps as arrays of operator calls, so that their sums are fast to compute for other constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

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
from skyline_predictors.mixed.predictor import table, unit_format

_step = attrgetter("step")


class Watched(Mapping[str, float]):
    """Constants that record which of them were read."""

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
    """Calls of one kind in one format on one GPU: columns of distinct calls, and the counts of each call per step."""

    kind: CallKind
    gpu: GpuSpec
    number_format: str
    columns: dict[str, Floats]
    which: NDArray[np.int64]
    steps: NDArray[np.int64]
    counts: Floats


class StepSums:
    """The predicted times of measured steps, by kind of call."""

    def __init__(self, rows: Sequence[ImageRow], programs: Programs) -> None:
        self.rows: list[ImageRow] = []
        gathered: dict[tuple[CallKind, str, str], list[tuple[tuple[float, ...], int, int]]] = defaultdict(
            list
        )
        for _, group in groupby(sorted(rows, key=_step), key=_step):
            alike = list(group)
            program = programs.table(alike[0])
            if program is None:
                continue
            first = len(self.rows)
            self.rows += alike
            for call in program.fused if alike[0].compiled else program.calls:
                shape = call.at(alike[0].batch, alike[0].renamed)
                kind, numbers = read_call(shape)
                for place, row in enumerate(alike, first):
                    gathered[kind, row.gpu, unit_format(shape, kind, gpu_named(row.gpu))].append(
                        (numbers, place, call.count)
                    )
        self._blocks: list[_Block] = []
        for (kind, gpu, number_format), calls in gathered.items():
            places: dict[tuple[float, ...], int] = {}
            which = [places.setdefault(numbers, len(places)) for numbers, _, _ in calls]
            self._blocks.append(
                _Block(
                    kind,
                    gpu_named(gpu),
                    number_format,
                    as_columns(kind, list(places)),
                    np.array(which),
                    np.array([place for _, place, _ in calls]),
                    np.array([float(count) for _, _, count in calls]),
                )
            )
        self.measured_us = np.array([row.step_ms * 1e3 for row in self.rows])

    def parts(self, constants: Mapping[str, float]) -> list[tuple[CallKind, Floats, set[str]]]:
        """For each block of calls, its part of every step's time and the constants that it depends on."""
        return [self.part(place, constants) for place in range(len(self._blocks))]

    def part(self, place: int, constants: Mapping[str, float]) -> tuple[CallKind, Floats, set[str]]:
        """The part of one block."""
        block = self._blocks[place]
        watched = Watched(constants)
        on = board(block.gpu, block.number_format, watched)
        times = call_us(block.kind, block.columns, on, watched)[block.which] * block.counts
        total = np.bincount(block.steps, weights=times, minlength=len(self.rows)).astype(np.float64)
        return block.kind, total, watched.asked

    def by_kind(self, constants: Mapping[str, float]) -> dict[CallKind, Floats]:
        """The time of each step by kind of call."""
        found: dict[CallKind, Floats] = {}
        for kind, total, _ in self.parts(constants):
            found[kind] = found.get(kind, np.zeros(len(self.rows))) + total
        return found


class Calibration:
    """Fits of the constants to the sums of measured steps.

    The fit to all rows starts from the middle of the ranges. Fits to some rows start from that fit.
    """

    def __init__(self, sums: StepSums, weights: Floats) -> None:
        self.sums = sums
        self._weights = weights
        self._ranges = {
            name: (one.value, one.value) if one.source.startswith("not fitted") else (one.low, one.high)
            for name, one in table().items()
        }
        middles = {name: (low * high) ** 0.5 for name, (low, high) in self._ranges.items()}
        every = _Fit(sums, np.ones(len(sums.rows), np.bool_), weights, self._ranges)
        self.constants = fitted(every, middles, said=True)
        self._slopes = every.slopes(self.constants, sums.parts(self.constants))

    def without(self, away: NDArray[np.bool_]) -> dict[str, float]:
        """The constants that fit all rows except these best."""
        slopes = {name: one[~away] for name, one in self._slopes.items()}
        return fitted(_Fit(self.sums, ~away, self._weights, self._ranges), self.constants, slopes)


def fitted(
    fit: _Fit, start: Mapping[str, float], slopes: Mapping[str, Floats] | None = None, *, said: bool = False
) -> dict[str, float]:
    """The constants with which the sums agree best with the measured steps.

    Uses Gauss-Newton on logarithms with Huber's weights. Each constant has a prior at the middle of its range, with a
    quarter of the range as the standard deviation. Several steps share the slopes, which are slow to compute. The
    slopes of the first steps may be given.
    """
    values = dict(start)
    cost, parts = fit.cost(values)
    damping = 0.1
    for round_ in range(_ROUNDS):
        if said:
            print(f"round {round_}: cost {cost:.1f}, mean error {fit.mean_error(parts):.4f}", flush=True)
        slopes = fit.slopes(values, parts) if round_ or slopes is None else slopes
        before = cost
        for _ in range(_STEPS):
            left, right, names = fit.equations(values, parts, slopes)
            step_before = cost
            for _ in range(5):
                move = np.linalg.solve(left + damping * np.diag(np.diag(left)), right).clip(
                    -_LONGEST, _LONGEST
                )
                tried = fit.moved(values, dict(zip(names, move.tolist(), strict=True)))
                new_cost, new_parts = fit.cost(tried)
                if new_cost < cost:
                    values, cost, parts = tried, new_cost, new_parts
                    damping = max(damping / 3, 1e-3)
                    break
                damping *= 5
            if step_before - cost < _ENOUGH * cost:
                break
        if before - cost < _ENOUGH * cost:
            break
    return values


_NOISE = 0.1
"""Standard deviation of the logarithm of a step's time that the model is not expected to explain."""
_HUBER = 0.15
_STEP = 0.03
_ROUNDS = 15
_STEPS = 3
"""Maximum number of steps that share slopes."""
_ENOUGH = 1e-3
"""Smallest relative reduction of the cost by a round, or a step, for another one to follow."""
_LONGEST = 0.7
"""Largest change of a logarithm in one round."""
Parts = list[tuple[CallKind, Floats, set[str]]]


class _Fit:
    """The sum of squares that a fit minimises, and its slopes."""

    def __init__(
        self, sums: StepSums, chosen: NDArray[np.bool_], weights: Floats,
        ranges: Mapping[str, tuple[float, float]],
    ) -> None:  # fmt: skip
        self._sums, self._chosen, self._ranges = sums, chosen, ranges
        self._measured = sums.measured_us[chosen]
        self._weights = weights[chosen]
        self._names = [name for name, (low, high) in ranges.items() if high > low]
        self._spread = {name: float(np.log(ranges[name][1] / ranges[name][0])) / 4 for name in self._names}
        self._centre = {name: float(np.log(ranges[name][0] * ranges[name][1])) / 2 for name in self._names}

    def cost(self, values: Mapping[str, float]) -> tuple[float, Parts]:
        """The cost of constants, and the parts that it was computed from."""
        parts = self._sums.parts(values)
        residual = self._residual(parts)
        far = np.abs(residual)
        each = np.where(far < _HUBER, far**2 / 2, _HUBER * (far - _HUBER / 2))
        prior = sum((self._away(values, name) / self._spread[name]) ** 2 / 2 for name in self._names)
        return float((self._weights * each).sum()) / _NOISE**2 + prior, parts

    def mean_error(self, parts: Parts) -> float:
        """Mean absolute relative error."""
        return float(np.abs(np.expm1(self._residual(parts))).mean())

    def moved(self, values: Mapping[str, float], moves: Mapping[str, float]) -> dict[str, float]:
        """Constants after steps of their logarithms, inside their ranges."""
        found = dict(values)
        for name, by in moves.items():
            low, high = self._ranges[name]
            found[name] = float(np.clip(values[name] * np.exp(by), low, high))
        return found

    def slopes(self, values: Mapping[str, float], parts: Parts) -> dict[str, Floats]:
        """For each constant in use, the derivative of the logarithm of each sum by the logarithm of the constant."""
        total = np.sum([one for _, one, _ in parts], axis=0)[self._chosen]
        found: dict[str, Floats] = {}
        for name in self._names:
            own = [place for place, (_, _, asked) in enumerate(parts) if name in asked]
            if not own:
                continue
            changed = {**values, name: values[name] * float(np.exp(_STEP))}
            difference = np.sum(
                [self._sums.part(place, changed)[1] - parts[place][1] for place in own], axis=0
            )
            found[name] = difference[self._chosen] / total / _STEP
        return found

    def equations(
        self, values: Mapping[str, float], parts: Parts, slopes: Mapping[str, Floats]
    ) -> tuple[Floats, Floats, list[str]]:
        """The normal equations of the next step, for the constants that are not stopped at an end of their range."""
        residual = self._residual(parts)
        strength = self._weights / np.maximum(1.0, np.abs(residual) / _HUBER)
        names = list(slopes)
        matrix = np.array([slopes[name] for name in names]).T
        prior = np.array([1 / self._spread[name] ** 2 for name in names])
        away = np.array([self._away(values, name) for name in names])
        left = (matrix * strength[:, None]).T @ matrix / _NOISE**2 + np.diag(prior)
        right = -(matrix * strength[:, None]).T @ residual / _NOISE**2 - prior * away
        free = [
            place
            for place, (name, by) in enumerate(zip(names, right.tolist(), strict=True))
            if not self._stopped(values, name, by)
        ]
        return left[np.ix_(free, free)], right[free], [names[place] for place in free]

    def _residual(self, parts: Parts) -> Floats:
        return np.log(np.sum([one for _, one, _ in parts], axis=0)[self._chosen] / self._measured)

    def _stopped(self, values: Mapping[str, float], name: str, by: float) -> bool:
        """True if a constant is at an end of its range and the step would move it beyond."""
        low, high = self._ranges[name]
        return (by < 0 and values[name] <= low * 1.0001) or (by > 0 and values[name] >= high * 0.9999)

    def _away(self, values: Mapping[str, float], name: str) -> float:
        return float(np.log(values[name])) - self._centre[name]
