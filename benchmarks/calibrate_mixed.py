"""Fits the constants of the predictor ``mixed`` on published steps, and reports its errors on rows left out.

``calibrate_mixed.py --data FOLDER`` fits on the rows of ``timm.csv`` of the models in ``mixed_models.json`` whose
programs are in ``published_tables.json.xz``. It writes the constants, the deviations and the widths of intervals into
the package, and the page of errors on rows left out. ``--check`` fits in the same way, writes nothing, and fails if a
constant differs from the one in the package. Both start from the middle of the ranges, so the result depends only on
rows, programs and ranges.

``--store FILE`` takes the operators of the same programs from another file. Missing programs are traced into it, which
needs timm (see ``published.py``); an empty file therefore traces all of them again. ``--every`` fits on all models
with stored programs and writes them into the list, after which no model is unseen (``published.py --unseen``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from fitted_models import seen, write_models
from image_rows import ImageRow, Programs, image_rows, sampled
from interval_widths import all_spreads, held, kind_of, needed
from left_out import LeftOut, without_each
from left_out_page import left_out_page
from operator_table import STORE, TableStore
from step_sums import Calibration, StepSums

import skyline_predictors.mixed
from skyline.predict.gpus import gpu_named
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.predictor import table
from skyline_predictors.mixed.step_width import StepKind

FOLDER = Path(skyline_predictors.mixed.__file__).parent
_ALIKE = 0.001
"""Relative difference of two constants up to which it counts as rounding to four digits."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with timm.csv")
    parser.add_argument("--store", type=Path, default=STORE, help="file of operator tables")
    parser.add_argument("--check", action="store_true", help="compare with the package, write nothing")
    parser.add_argument("--every", action="store_true", help="fit on all models with stored programs")
    parser.add_argument("--sample", type=int, default=0, help="only so many models; writes nothing")
    options = parser.parse_args()
    rows = chosen_rows(options.data, options.sample, every=options.every)
    sums = step_sums(rows, options.store)
    print(f"{len(sums.rows)} rows", flush=True)
    calibration = Calibration(sums, weights(sums))
    if options.check:
        return different(calibration.constants)
    left = without_each(calibration)
    if options.sample:
        return 0
    keep(calibration.constants)
    keep_widths(sums, left)
    if options.every:
        write_models(sums.rows)
    left_out_page(sums, left)
    return 0


def chosen_rows(folder: Path, sample: int, *, every: bool) -> list[ImageRow]:
    """The rows with stored programs: of the models in the list or of all. With ``sample``, of only so many models."""
    stored = Programs(TableStore())
    rows = image_rows(folder)
    rows = [row for row in (rows if every else seen(rows)) if stored.stored(row)]
    return sampled(rows, sample) if sample else rows


def step_sums(rows: list[ImageRow], path: Path) -> StepSums:
    """The sums of the rows by the tables in a file. Missing programs are traced and stored in the file."""
    programs = Programs(TableStore(path))
    try:
        return StepSums(rows, programs)
    finally:
        programs.close()
        if programs.traced:
            programs.store.save()


def weights(sums: StepSums) -> Floats:
    """The weight of each row. Models with many rows count less. Training rows are rare and count three times."""
    counts: dict[tuple[str, bool], int] = {}
    for row in sums.rows:
        key = row.model, row.training
        counts[key] = counts.get(key, 0) + 1
    found = np.array(
        [(3.0 if row.training else 1.0) / counts[row.model, row.training] ** 0.5 for row in sums.rows]
    )
    return found / found.mean()


def different(found: Mapping[str, float]) -> int:
    """Print the constants that differ from those in the package. Returns 1 if there are any."""
    shipped = table()
    apart = {
        name: rounded(value) for name, value in found.items()
        if abs(rounded(value) / shipped[name].value - 1) > _ALIKE
    }  # fmt: skip
    for name, value in apart.items():
        print(f"{name}: fitted {value}, in the package {shipped[name].value}")
    print(f"{len(found) - len(apart)} of {len(found)} constants are those in the package")
    return int(bool(apart))


def rounded(value: float) -> float:
    """A constant as written to the file, with four digits."""
    return float(f"{value:.4g}")


def keep(found: Mapping[str, float]) -> None:
    """Write the constants into the package. Their ranges and sources stay the same."""
    lines = [
        f'"{name}": {json.dumps([rounded(found[name]), one.low, one.high, one.source], ensure_ascii=False)}'
        for name, one in table().items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    msgspec.json.decode(text)
    (FOLDER / "constants.json").write_text(text, encoding="utf-8")


def keep_widths(sums: StepSums, left: LeftOut) -> None:
    """Write the deviations by kind of call and the factors by kind of step, from all rows, into the package."""
    spread = all_spreads(sums.measured_us, left.by_family)
    seen_need, unseen_need = (
        needed(sums.measured_us, predicted, spread) for predicted in (left.by_family, left.by_gpu)
    )
    kinds = np.array([kind_of(row).value for row in sums.rows])
    widths = {
        kind.value: {
            "seen": round(held(seen_need[kinds == kind.value]), 3),
            "unseen": round(held(unseen_need[kinds == kind.value]), 3),
            "gpus": sorted({gpu_named(row.gpu).name for row in sums.rows if kind_of(row) is kind}),
        }
        for kind in StepKind
    }
    for name, content in (("spreads", spread), ("step_widths", widths)):
        (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
