"""Fits the constants of the predictor ``mixed`` on published steps, and says how well it does on what it did not see.

``calibrate_mixed.py --data FOLDER`` uses the rows of ``timm.csv`` of the models in ``mixed_models.json``, as far as
their programs are stored, and writes the constants and the spreads. ``--every`` uses all models with stored programs
and writes them into the list: no model is unseen then (``published.py --unseen``). The fit starts from the middle of
the ranges, so the result depends on rows and ranges only. The script fits again without each of four groups of model
families and without each GPU, and writes the errors on the rows left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from fitted_models import seen, write_models
from image_rows import Programs, image_rows, sampled
from left_out import left_out_page, without_each
from operator_table import TableStore
from step_sums import Calibration, StepSums

import skyline_predictors.mixed
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.constants import table

FOLDER = Path(skyline_predictors.mixed.__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with timm.csv")
    parser.add_argument("--every", action="store_true", help="fit on all models with stored programs")
    parser.add_argument("--sample", type=int, default=0, help="only so many models; writes nothing")
    options = parser.parse_args()
    programs = Programs(TableStore())
    rows = image_rows(options.data)
    rows = [row for row in (rows if options.every else seen(rows)) if programs.stored(row)]
    if options.sample:
        rows = sampled(rows, options.sample)
    sums = StepSums(rows, programs)
    programs.close()
    print(f"{len(sums.rows)} rows", flush=True)
    calibration = Calibration(sums, weights(sums))
    left = without_each(calibration)
    if options.sample:
        return
    keep(calibration.constants)
    (FOLDER / "spreads.json").write_text(json.dumps(left.spreads, indent=1) + "\n", encoding="utf-8")
    if options.every:
        write_models(sums.rows)
    left_out_page(sums, left)


def weights(sums: StepSums) -> Floats:
    """Rows of models that were measured often count less; training counts three times, for which there are few."""
    counts: dict[tuple[str, bool], int] = {}
    for row in sums.rows:
        key = row.model, row.training
        counts[key] = counts.get(key, 0) + 1
    found = np.array(
        [(3.0 if row.training else 1.0) / counts[row.model, row.training] ** 0.5 for row in sums.rows]
    )
    return found / found.mean()


def keep(found: Mapping[str, float]) -> None:
    """Write the constants into the package, with the ranges and sources that they have there."""
    lines = [
        f'"{name}": {json.dumps([float(f"{found[name]:.4g}"), one.low, one.high, one.source], ensure_ascii=False)}'
        for name, one in table().items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    msgspec.json.decode(text)
    (FOLDER / "constants.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
