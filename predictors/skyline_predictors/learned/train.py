"""Trains the learned predictor: ``python -m skyline_predictors.learned.train DATA_DIR [MORE_DATA ...]``."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from skyline.errors import SkylineError
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
    no_wider,
    reach,
    spreads,
    trust,
)
from skyline_predictors.learned.measurements import FILE, data_hash, measured
from skyline_predictors.learned.model import LearnedFigures, Model, Trained

_STEPS, _STEPS_LEFT_OUT = 1200, 400
_SEEDS = (1, 2, 3)
"""The search does not always get to the same place: the best of several."""
_TREES_LEFT_OUT = 150
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


def train(folders: list[Path]) -> Model:
    """All families, from the training files in the folders."""
    began = time.process_time()
    sets, calls, rows = measured(folders)
    physics = START
    trusts: dict[Family, float] = {}
    known: dict[Family, list[Spread]] = {}
    unknown: dict[Family, list[Spread]] = {}
    errors: dict[str, dict[str, tuple[float, float]]] = {}
    shared: dict[Family, Forest] = {}
    own: dict[Family, Forest] = {}
    for family in sorted(sets, key=lambda one: one.value):
        kernels = sets[family]
        physics = min((fitted(family, kernels, physics, _STEPS, seed) for seed in _SEEDS), key=_loss)[0]
        shared[family] = grown(family, kernels, physics, own=False)
        own[family] = grown(family, kernels, physics, own=True)
        held = left_out(family, kernels, physics, _STEPS_LEFT_OUT, _TREES_LEFT_OUT)
        trusts[family] = trust(held)
        unknown[family] = _rounded(spreads(held, trusts[family]))
        own_spreads = known_spreads(family, kernels, physics, held, trusts[family])
        known[family] = _rounded(no_wider(own_spreads, unknown[family]))
        errors[family.value] = _errors(held, trusts[family])
        print(f"{family.value}: trust {trusts[family]}, left out {errors[family.value]}", file=sys.stderr)
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
    measured_generations = {family: generations(kernels) for family, kernels in sets.items()}
    reached = {family: reach(kernels) for family, kernels in sets.items()}
    learned = LearnedFigures(physics, reached, measured_generations, trusts, known, unknown, calls, record)
    return Model(learned, shared, own)


def _loss(found: tuple[Physics, float]) -> float:
    return found[1]


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
