"""Scores predictors against measured data.

``python -m skyline_predictors.evaluate DATA_DIR --split visible --json -``
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from skyline.errors import SkylineError, UsageError
from skyline_predictors.measured_folder import MeasuredFolder
from skyline_predictors.predictions import all_predictors, predict_graph, predict_kernels
from skyline_predictors.score_page import page, provenance
from skyline_predictors.scores import Group, Pair, Score, grouped

__all__ = ["evaluate", "main", "predict_graph", "predict_kernels"]

SEEN_FILE = "kernels_test_seen_gpus.csv.gz"
HALF_FILE = "kernels_fp16_h100.csv"
_FAR = 0.3
_NAME = "predictors"
Tables = dict[str, dict[str, dict[str, Score]]]
"""Scores by table, group of rows, and predictor."""


def main(arguments: list[str] | None = None) -> int:
    """Score all predictors and write the scores as JSON, as a page, or both."""
    parser = argparse.ArgumentParser(
        prog="python -m skyline_predictors.evaluate", description="Score predictors against measured data."
    )
    parser.add_argument("data", type=Path, help="folder laid out like the measured data")
    parser.add_argument("--split", default="visible", help="suffix of the files to score against")
    parser.add_argument(
        "--json", metavar="FILE", help="write the tables as JSON; - writes them to the terminal"
    )
    parser.add_argument("--results", type=Path, help=f"write {_NAME}.md and {_NAME}.json into this folder")
    parser.add_argument("--predictor", action="append", help="only this one; may be given again")
    options = parser.parse_args(arguments)
    try:
        content = evaluate(options.data.resolve(), options.split, options.predictor)
    except SkylineError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    text = json.dumps(content, indent=1)
    if options.json == "-":
        print(text)
    elif options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.results:
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / f"{_NAME}.json").write_text(text + "\n", encoding="utf-8")
        (options.results / f"{_NAME}.md").write_text(page(content), encoding="utf-8")
    if not options.json and not options.results:
        print(page(content))
    return 0


def evaluate(data: Path, split: str, names: list[str] | None = None) -> dict[str, object]:
    """All tables, ready for JSON. Errors are shares, not per cent.

    Raises:
        UsageError: the folder has nothing of the split, one of its files cannot be read, or no predictor is called
            as asked.
    """
    folder = MeasuredFolder(data, split)
    folder.check()
    predictors = all_predictors()
    for unknown in sorted(set(names or ()) - set(predictors)):
        raise UsageError(f"there is no predictor {unknown!r}", hint=f"Available: {', '.join(predictors)}.")
    tables: Tables = {}
    far: dict[str, list[dict[str, object]]] = {}

    def add(table: str, predictor: str, pairs: list[Pair], groups: list[Group]) -> None:
        for title, found in grouped(pairs, groups).items():
            tables.setdefault(table, {}).setdefault(title, {})[predictor] = found

    for name, predictor in predictors.items():
        # Predictors for particular machines have no answers for these rows, unless they are named.
        if (names and name not in names) or (not names and hasattr(predictor, "claims")):
            continue
        models = folder.models(predictor)
        add("models", name, models, _model_groups(models))
        far[name] = [
            {"model": pair.name, "gpu": pair.gpu, "error": pair.error}
            for pair in models
            if abs(pair.error) > _FAR
        ]
        fused = folder.models(predictor, "fusion")
        add("compiled models", name, fused, _model_groups(fused))
        forward, backward = folder.nodes(predictor)
        add("forward nodes", name, forward, _node_groups(forward))
        add("backward nodes", name, backward, _node_groups(backward))
        kernels = folder.kernels(predictor)
        add("kernels", name, kernels, _kernel_groups(kernels))
        if split == "visible":
            seen = folder.kernels(predictor, SEEN_FILE)
            add("new shapes on measured GPUs", name, seen, _kernel_groups(seen))
            half = folder.kernels(predictor, HALF_FILE)
            add("kernels in 16 bits", name, half, _by_gpu(half))
    for name, pairs in folder.published_models().items():
        add("models", _published(name), pairs, _model_groups(pairs))
    for name, (forward, backward) in folder.published_nodes().items():
        add("forward nodes", _published(name), forward, _node_groups(forward))
        add("backward nodes", _published(name), backward, _node_groups(backward))
    if split == "visible":
        half = folder.published_kernels(HALF_FILE, "neusight_ms")
        add("kernels in 16 bits", _published("neusight"), half, _by_gpu(half))
    return {
        **provenance(split),
        "tables": {
            table: {
                title: {name: asdict(one) for name, one in by_name.items()} for title, by_name in rows.items()
            }
            for table, rows in tables.items()
        },
        "models further off than 30 %": far,
        "models without a graph": folder.without_graph(),
        "left out": [{"why": why, "rows": rows} for why, rows in sorted(folder.left_out.items())],
    }


def _published(name: str) -> str:
    return f"{name} (published)"


def _by_gpu(pairs: list[Pair]) -> list[Group]:
    gpus = sorted({pair.gpu for pair in pairs})
    return [(gpu, lambda pair, gpu=gpu: pair.gpu == gpu) for gpu in gpus]


def _model_groups(pairs: list[Pair]) -> list[Group]:
    return [
        ("all", lambda pair: True),
        ("unseen GPUs", lambda pair: pair.unseen),
        ("seen GPUs", lambda pair: not pair.unseen),
        ("inference", lambda pair: pair.kind == "inf"),
        ("training", lambda pair: pair.kind == "train"),
        *_by_gpu(pairs),
    ]


def _node_groups(pairs: list[Pair]) -> list[Group]:
    kinds = sorted({pair.kind for pair in pairs if pair.unseen})
    return [
        ("unseen GPUs", lambda pair: pair.unseen),
        ("seen GPUs", lambda pair: not pair.unseen),
        *_by_gpu(pairs),
        *((f"unseen, {kind}", lambda pair, kind=kind: pair.unseen and pair.kind == kind) for kind in kinds),
    ]


def _kernel_groups(pairs: list[Pair]) -> list[Group]:
    """Groups of kernels. Convolutions and the P4's linear layers, whose library changed, are separate."""
    found: list[Group] = [
        ("unseen GPUs, without convolutions", lambda pair: pair.unseen and pair.kind != "conv"),
        ("seen GPUs, without P4 linear", lambda pair: not pair.unseen and not _p4_linear(pair)),
    ]
    for gpu in sorted({pair.gpu for pair in pairs}):
        for kind in sorted({_group(pair) for pair in pairs if pair.gpu == gpu}):
            found.append(
                (f"{gpu} {kind}", lambda pair, gpu=gpu, kind=kind: pair.gpu == gpu and _group(pair) == kind)
            )
    return found


def _group(pair: Pair) -> str:
    return pair.kind if pair.kind in ("bmm", "linear", "conv", "ln", "softmax") else "elementwise"


def _p4_linear(pair: Pair) -> bool:
    return (pair.gpu, pair.kind) == ("P4", "linear")


if __name__ == "__main__":
    sys.exit(main())
