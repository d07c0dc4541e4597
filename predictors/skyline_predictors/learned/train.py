"""Trains the learned predictor: ``python -m skyline_predictors.learned.train DATA_DIR [MORE_DATA ...]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path

import numpy as np

from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline_predictors.constants import Spread
from skyline_predictors.learned import boosting
from skyline_predictors.learned import model as models
from skyline_predictors.learned.calibration_rows import calibration_files
from skyline_predictors.learned.family import Family, Physics
from skyline_predictors.learned.fitting import START, fitted
from skyline_predictors.learned.forest import Forest
from skyline_predictors.learned.left_out import (
    ROWS,
    Held,
    generations,
    grown,
    known_spreads,
    left_out,
    mean_error,
    no_surer,
    reach,
    spreads,
    trust,
)
from skyline_predictors.learned.machine import sustained_clock
from skyline_predictors.learned.measurements import (
    FILE,
    Calls,
    KernelMeasurements,
    Sets,
    data_hash,
    measured,
)
from skyline_predictors.learned.model import LearnedFigures, Model, Trained

_STEPS, _STEPS_LEFT_OUT = 1200, 400
_SEEDS = (1, 2, 3)
"""Seeds of the search. Its result depends on the seed, so the best of several is used."""
_TREES_LEFT_OUT = 150
_CORRECTED = (Family.CONVOLUTION,)
"""Families whose correction carries over from some GPUs to others. For the other families it improved the
error on GPUs that were left out by less than half a percentage point."""
_OWN_CLOCK = 0.75
"""Share of its stated clock that a board has to sustain for its measured products to correct physics. The
correction improves the prediction of new shapes on the A100-40GB (0.86; bmm 13.8 to 9.4 %, linear 6.6 to 4.9
%). It worsens it on the T4 (0.51; 20.0 to 24.3 %, 8.4 to 16.6 %), whose clock depends on its temperature. Any
limit between them has the same effect."""
_OWN_DATA = Path(__file__).resolve().parents[2] / "data"


def main(arguments: list[str] | None = None) -> int:
    """Write the weights and their record into the package."""
    parser = argparse.ArgumentParser(
        prog="python -m skyline_predictors.learned.train", description="Train the learned predictor."
    )
    parser.add_argument("data", type=Path, nargs="+", help=f"folders that hold {FILE}")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder for the weights")
    options = parser.parse_args(arguments)
    folders = [folder.resolve() for folder in options.data]
    folders += [found.parent for found in sorted(_OWN_DATA.glob(f"**/{FILE}"))]
    folders += calibration_files(_OWN_DATA)
    try:
        trained = train(folders)
    except SkylineError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    record, weights = models.written(trained)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / models.RECORD_FILE).write_bytes(record)
    (options.output / models.WEIGHTS_FILE).write_bytes(weights)
    print(f"{len(weights) / 1e6:.2f} MB of weights, {trained.learned.trained.seconds:.0f} s of training")
    return 0


@dataclass(frozen=True, slots=True)
class _Fit:
    """The fit of one family; ``physics`` holds the constants of all families up to it.

    ``shared`` is None if the correction does not carry over to GPUs that were left out.
    """

    physics: Physics
    shared: Forest | None
    held: list[Held]
    trust: float


def train(folders: list[Path]) -> Model:
    """Train all families on the training files in the folders."""
    began = time.process_time()
    sets, calls, rows = measured(folders)
    fits = _fits(sets, tuple(sets), _STEPS, _SEEDS)
    known: dict[Family, dict[str, list[Spread]]] = {}
    unknown: dict[Family, list[Spread]] = {}
    own: dict[Family, Forest] = {}
    errors: dict[str, dict[str, tuple[float, float]]] = {}
    for family, fit in fits.items():
        kernels = sets[family]
        own[family] = grown(family, kernels, fit.physics, own=True)
        own_spreads = known_spreads(family, kernels, fit.physics, fit.held, fit.trust)
        known[family] = {generation: _rounded(one) for generation, one in own_spreads.items()}
        unknown[family] = _rounded(no_surer(spreads(fit.held, fit.trust), own_spreads.values()))
        errors[family.value] = _errors(fit.held, fit.trust)
        print(f"{family.value}: trust {fit.trust}, left out {errors[family.value]}", file=sys.stderr)
    settings = {
        "steps": _STEPS,
        "trees": boosting.TREES,
        "depth": boosting.DEPTH,
        "rate": boosting.RATE,
        "rows": ROWS,
    }
    record = Trained(
        models.FORMAT,
        datetime.now(timezone.utc).date().isoformat(),
        data_hash(folders),
        rows,
        settings,
        round(time.process_time() - began, 1),
        errors,
    )
    generations_of = {family: generations(kernels) for family, kernels in sets.items()}
    return _model(sets, fits, generations_of, (known, unknown), calls, record, own)


def model_for_others(sets: Sets, shortest_us: Calls) -> Model:
    """A model for generations without measurements: without trees of known GPUs, and with a default uncertainty."""
    record = Trained(models.FORMAT, "", {}, {}, {}, 0.0, {})
    unmeasured: dict[Family, list[str]] = {family: [] for family in sets}
    unsure = {family: [Spread(0.5, 2.0)] * (len(models.LONGER_US) + 1) for family in sets}
    none: dict[Family, dict[str, list[Spread]]] = {family: {} for family in sets}
    fits = _fits(sets, _CORRECTED, _STEPS_LEFT_OUT, _SEEDS[:1])
    return _model(sets, fits, unmeasured, (none, unsure), shortest_us, record, {})


def unsteady(kernels: Sequence[KernelMeasurements]) -> list[str]:
    """Generations without any measured board that sustains the clock of its measurement."""
    steady = generations([one for one in kernels if sustained_clock(one.gpu) >= _OWN_CLOCK])
    return [one for one in generations(kernels) if one not in steady]


def _contradicted(kernels: Sequence[KernelMeasurements]) -> list[str]:
    """Generations with measurements that are not typical of them."""
    return generations([one for one in kernels if not one.reliable.all()])


def _fits(sets: Sets, left_out_too: Sequence[Family], steps: int, seeds: Sequence[int]) -> dict[Family, _Fit]:
    """The fits of all families. For families in ``left_out_too``, each GPU is also left out once."""
    physics = START
    found: dict[Family, _Fit] = {}
    for family in sorted(sets, key=lambda one: one.value):
        kernels = sets[family]
        physics = min((fitted(family, kernels, physics, steps, seed) for seed in seeds), key=itemgetter(1))[0]
        corrected = family in _CORRECTED
        shared = grown(family, kernels, physics, own=False) if corrected else None
        held: list[Held] = []
        if family in left_out_too:
            trees = _TREES_LEFT_OUT if corrected else 0
            held = left_out(family, kernels, physics, _STEPS_LEFT_OUT, trees)
        found[family] = _Fit(physics, shared, held, trust(held) if corrected else 0.0)
    return found


def _model(
    sets: Sets,
    fits: Mapping[Family, _Fit],
    measured_generations: dict[Family, list[str]],
    sure: tuple[dict[Family, dict[str, list[Spread]]], dict[Family, list[Spread]]],
    calls: Calls,
    record: Trained,
    own: dict[Family, Forest],
) -> Model:
    *_, last = fits.values()
    learned = LearnedFigures(
        last.physics,
        {family: reach(family, kernels) for family, kernels in sets.items()},
        measured_generations,
        {family: fit.trust for family, fit in fits.items() if fit.shared is not None},
        *sure,
        {family: found for family, kernels in sets.items() if (found := _contradicted(kernels))},
        {family: unsteady(kernels) for family, kernels in sets.items() if family is Family.PRODUCT},
        calls,
        record,
    )
    shared = {family: fit.shared for family, fit in fits.items() if fit.shared is not None}
    return Model(learned, shared, own)


def _errors(held: list[Held], share: float) -> dict[str, tuple[float, float]]:
    return {
        one.measured.gpu.name: (
            round(mean_error(one.logs(0.0)), 4),
            round(mean_error(one.logs(share)), 4),
        )
        for one in held
    }


def _rounded(found: list[Spread]) -> list[Spread]:
    return [Spread(round(one.low, 3), round(one.high, 3)) for one in found]


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    sys.exit(main())
