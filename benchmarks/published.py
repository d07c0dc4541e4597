"""Scores predictions of published steps on absent GPUs, in the number formats and layouts that people train in.

``published.py --data FOLDER`` scores every row of ``timm.csv`` and the single-GPU image models of
``nvidia_examples.json`` in a folder. Programs whose operators are not stored with this script are traced, which needs
timm, with PyTorch for the CPU: ``pip install -r benchmarks/published.txt``, then
``pip install --no-deps timm==1.0.31``.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from batch_steps import fits
from fitted_models import unseen
from image_rows import Programs, image_rows, sampled
from machine import Machine
from nvidia_rows import nvidia_results
from operator_table import STORE, TableStore
from predicted_steps import RowResult, row_results
from result_file import table, write
from step_scores import Pair, Score, in_proportion, score, signs

from skyline.predict.operator_time import OperatorPredictor
from skyline_predictors.mixed.by_format import ByFormat
from skyline_predictors.roofline import Roofline

_GOALS = {
    "training": "≤ 10 %, worst tenth ≤ 25 %",
    "inference": "≤ 12 %, a GPU never seen ≤ 15 %",
    "channels last over first": "≤ 7 %, right side in 9 of 10",
    "compiled over not": "≤ 12 %",
    "NVIDIA, single over mixed": "≤ 12 %",
    "NVIDIA": "≤ 20 %",
}
_PAGES = {
    False: ("published", "Published steps, predicted"),
    True: ("published_unseen", "Published steps of unseen models, predicted"),
}
_SEEN = {
    False: (
        "The errors are those of the constants in the package, which were fitted on rows of the same file. "
        "[mixed_left_out.md](mixed_left_out.md) has the errors on model families and GPUs outside the fit."
    ),
    True: (
        "No row of these models set a constant, but rows of the same model families did. `mixed_models.json` "
        "lists the models of the fit."
    ),
}
Figures = dict[str, dict[str, Score]]
"""Scores by group of rows and by predictor."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with timm.csv and nvidia_examples.json"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON; - writes them to the terminal"
    )
    parser.add_argument("--sample", type=int, default=0, help="only so many models, spread over the families")
    parser.add_argument("--stored", action="store_true", help="only models whose operators are stored")
    parser.add_argument("--unseen", action="store_true", help="only models whose rows set no constant")
    parser.add_argument(
        "--store", type=Path, default=STORE, help="file of operator tables, written where it grows"
    )
    parser.add_argument(
        "--results", type=Path, help="write the pages of all rows and of unseen models into this folder"
    )
    options = parser.parse_args()
    store = TableStore(options.store)
    programs = Programs(store)
    rows = image_rows(options.data)
    total = len(rows)
    if options.stored:
        rows = [row for row in rows if programs.stored(row)]
    if options.unseen:
        rows = unseen(rows)
    if options.sample:
        rows = sampled(rows, options.sample)
    predictors: dict[str, OperatorPredictor] = {"mixed": ByFormat(), "roofline": Roofline()}
    try:
        results, left_out = row_results(rows, programs, predictors)
        nvidia, nvidia_left_out = nvidia_results(options.data, programs, predictors)
    finally:
        programs.close()
        if programs.traced:
            store.save()
    not_scored = {
        **{why: sorted(set(models)) for why, models in sorted(left_out.items())},
        **nvidia_left_out,
    }
    asked = Scored(results, nvidia, not_scored, total)
    if options.json == "-":
        print(json.dumps(asked.content(), indent=1))
    elif options.json:
        Path(options.json).write_text(json.dumps(asked.content(), indent=1) + "\n", encoding="utf-8")
    else:
        print(page(asked, options.unseen))
    if options.results:
        new = set(unseen([result.row for result in results]))
        others = replace(asked, results=[result for result in results if result.row in new])
        for one, of_unseen in ((asked, options.unseen), (others, True))[options.unseen :]:
            name, title = _PAGES[of_unseen]
            body = page(one, of_unseen)
            write(name, title, Machine.here(), body, one.content(), results=options.results)


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows with their predictions, out of ``total``; NVIDIA's examples; and the rows left out, by reason."""

    results: list[RowResult]
    nvidia: Figures
    left_out: dict[str, list[str]]
    total: int

    def figures(self) -> Figures:
        """All scores."""
        return {**scores(self.results), **self.nvidia}

    def batches(self) -> dict[str, int]:
        """The error of the largest batches that train."""
        return fits([one for one in self.results if one.row.training and one.row.gpu == "RTX3090"])

    def content(self) -> dict[str, object]:
        """The figures of the JSON file."""
        right, clear = layout_sides(self.results)
        return {
            "rows": len(self.results),
            "rows not scored": self.total - len(self.results),
            "scores": {
                group: {name: asdict(one) for name, one in by.items()} for group, by in self.figures().items()
            },
            "right side of the channels-last ratio": {"right": right, "clear": clear},
            "largest batch in 24 GB": self.batches(),
            "left out": self.left_out,
        }


def scores(results: list[RowResult]) -> Figures:
    """Scores of step times by setting, then of ratios of layouts and of compiling."""
    found: Figures = {}
    settings: dict[str, list[RowResult]] = {}
    for result in results:
        row = result.row
        mode = "training" if row.training else "inference"
        said = f"{mode}, {row.precision}, {row.gpu}, {row.layout}{', compiled' if row.compiled else ''}"
        settings.setdefault(said, []).append(result)
        settings.setdefault(f"{mode}, {row.gpu}, all", []).append(result)
        settings.setdefault(f"{mode}, all", []).append(result)
    for said in sorted(settings):
        found[said] = _scored(settings[said])
    for said, pairs in ratios(results).items():
        found[said] = {name: one for name, own in pairs.items() if (one := score(own)) is not None}
    return found


def ratios(results: list[RowResult]) -> dict[str, dict[str, list[Pair]]]:
    """The time of each step over its twin: channels last over channels first, compiled over not compiled."""
    by_key: dict[tuple[object, ...], RowResult] = {}
    for result in results:
        row = result.row
        common = (row.model, row.image_size, row.training, row.gpu, row.precision, row.torch)
        by_key[(*common, row.layout, row.compiled)] = result
    found: dict[str, dict[str, list[Pair]]] = {}
    for (*common, layout, compiled), over in by_key.items():
        for said, twin in (
            ("channels last over first", (*common, "nchw", compiled) if layout == "nhwc" else None),
            ("compiled over not", (*common, layout, False) if compiled else None),
        ):
            under = by_key.get(twin) if twin is not None else None
            if under is None:
                continue
            mode = "training" if over.row.training else "inference"
            for group in (said, f"{said}, {mode}, {over.row.gpu}"):
                for name, pair in _ratio_pairs(over, under).items():
                    found.setdefault(group, {}).setdefault(name, []).append(pair)
    return dict(sorted(found.items()))


def layout_sides(results: list[RowResult]) -> tuple[int, int]:
    """The number of clear effects of channels last with the right sign, and the number of all."""
    return signs(ratios(results).get("channels last over first", {}).get("mixed", []))


def _ratio_pairs(over: RowResult, under: RowResult) -> dict[str, Pair]:
    """The ratios of times per sample, because batches may differ."""
    per_sample = over.row.batch / under.row.batch
    measured = over.row.step_ms / under.row.step_ms / per_sample
    pairs = {
        name: Pair(over.row.model, step.value_ms / under.steps[name].value_ms / per_sample, measured)
        for name, step in over.steps.items()
    }
    pairs["no effect"] = Pair(over.row.model, 1.0, measured)
    return pairs


def _scored(results: list[RowResult]) -> dict[str, Score]:
    pairs: dict[str, list[Pair]] = {}
    for result in results:
        row = result.row
        for name, step in result.steps.items():
            pairs.setdefault(name, []).append(
                Pair(row.model, step.value_ms, row.step_ms, step.low_ms, step.high_ms)
            )
        for name, value in (
            ("in proportion to FLOP", result.proportions.flop_ms),
            ("in proportion to bytes", result.proportions.bytes_ms),
        ):
            pairs.setdefault(name, []).append(Pair(row.model, value, row.step_ms))
    scaled = {
        name: in_proportion(own) if name.startswith("in proportion") else own for name, own in pairs.items()
    }
    return {name: one for name, own in scaled.items() if (one := score(own)) is not None}


def page(scored: Scored, of_unseen: bool) -> str:
    """The tables of the page."""
    sides, batches = layout_sides(scored.results), scored.batches()
    head = (
        "rows of",
        "number",
        "goal",
        "error",
        "worst tenth",
        "bias",
        "inside",
        "width",
        "roofline",
        "∝ FLOP",
        "∝ bytes",
        "no effect",
    )
    rows: list[tuple[str, ...]] = []
    for group, by in scored.figures().items():
        own = by.get("mixed")
        if own is None:
            continue
        goal = next((text for start, text in _GOALS.items() if group.startswith(start)), "")
        others = ("roofline", "in proportion to FLOP", "in proportion to bytes", "no effect")
        rows.append(
            (
                group,
                str(own.rows),
                goal,
                _share(own.mean),
                _share(own.worst_tenth),
                f"{100 * own.bias:+.1f} %",
                _share(own.contained),
                f"±{50 * own.width:.0f} %" if own.width is not None else "",
                *(_share(by[name].mean) if name in by else "" for name in others),
            )
        )
    right, clear = sides
    within = sum(batches.get(name, 0) for name in ("same", "one step off"))
    asked = sum(batches.values())
    return (
        f"{len(scored.results)} of {scored.total} rows of `timm.csv` are scored. {_SEEN[of_unseen]} "
        "Errors are means of absolute relative errors. One row in ten exceeds the worst tenth. The bias is "
        "the median. `inside` is the share of measured times inside the predicted interval; the goal is "
        "90 %. The baselines in proportion have the best constant for the rows of their line.\n\n"
        + table(head, rows)
        + f"\n\nEffects of channels last above 5 %: {right} of {clear} predicted with the right sign."
        f"\n\nLargest batch that trains in 24 GB, in the steps that timm tries: {within} of {asked} "
        "within one step "
        f"({', '.join(f'{count} {name}' for name, count in batches.items())}).\n\n## Left out\n\n"
        + "\n".join(f"- {why}: {', '.join(names)}" for why, names in scored.left_out.items())
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
