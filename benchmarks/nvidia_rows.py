"""NVIDIA's published training throughput in single and mixed precision, for the image models in timm."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image_rows import ImageRow, Programs
from predicted_steps import predicted_step
from step_scores import Pair, Score, score

from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import OperatorPredictor

_FILE = "nvidia_examples.json"
_MODELS = {
    "resnet50v1.5": ("resnet50", 224, 256, 25.56),
    "resnext101-32x4d": ("resnext101_32x4d", 224, 128, 44.18),
    "se-resnext101-32x4d": ("seresnext101_32x4d", 224, 128, 48.96),
    "efficientnet-b0": ("efficientnet_b0", 224, 256, 5.29),
    "efficientnet-b4": ("efficientnet_b4", 380, 64, 19.34),
}
"""timm's model with the image size, the batch size and the millions of parameters. The tables of image models give no
batch size: those are the ones of the examples' own scripts for one GPU in mixed precision."""
_GPUS = (
    (r"A100.*80 ?GB?", "A100-80GB-SXM"),
    (r"A100.*40 ?GB?", "A100-40GB"),
    (r"V100.*32 ?GB?", "V100-SXM-32GB"),
    (r"V100.*16 ?GB?", "V100-SXM"),
)
_VERSION = (1, 9)
"""The version of PyTorch in the containers of 2021 that the tables name."""


@dataclass(frozen=True, slots=True)
class NvidiaRow:
    """Images per second of one model on one GPU in single and mixed precision. ``single`` is FP32 or TF32."""

    model: str
    gpu: str
    single: str
    single_per_s: float
    mixed_per_s: float


def nvidia_rows(folder: Path) -> tuple[list[NvidiaRow], dict[str, list[str]]]:
    """The rows that can be traced, and the examples that are left out by reason."""
    path = folder / _FILE
    if not path.exists():
        return [], {f"{_FILE} is not in the folder": []}
    found: dict[NvidiaRow, None] = {}
    left_out: set[str] = set()
    for one in json.loads(path.read_text(encoding="utf-8")):
        heading = " / ".join(one["headings"])
        if "raining perf" not in heading or "mixed" not in " ".join(one["header"]).lower():
            continue
        rows = list(_read(one, heading))
        if rows:
            found |= dict.fromkeys(rows)
        elif not any(name in one["source"] for name in _MODELS):
            left_out.add("/".join(one["source"].partition(":PyTorch/")[2].split("/")[:-1]))
    return list(found), {
        "examples of NVIDIA's whose models timm does not define, or without figures for one GPU": sorted(
            left_out
        )
    }


def nvidia_results(
    folder: Path, programs: Programs, predictors: Mapping[str, OperatorPredictor]
) -> tuple[dict[str, dict[str, Score]], dict[str, list[str]]]:
    """Scores of the step time in either precision, and of the ratio between them."""
    rows, left_out = nvidia_rows(folder)
    pairs: dict[str, dict[str, list[Pair]]] = {}
    for row in rows:
        told: dict[tuple[str, str], float] = {}
        for precision, layout in (("fp32", "nchw"), ("amp", "nhwc")):
            step = step_of(row, precision, layout)
            batch = step.batch
            table = programs.table(step)
            if table is None:
                left_out.setdefault(programs.store.why_missing(programs.key(step)), []).append(row.model)
                break
            shapes = [call.at(batch, {}) for call in table.calls]
            for name, predictor in predictors.items():
                said = predicted_step(table.calls, shapes, gpu_named(row.gpu), predictor)
                told[name, precision] = said.value_ms / batch
                per_s = row.single_per_s if precision == "fp32" else row.mixed_per_s
                pair = Pair(row.model, said.value_ms, 1e3 * batch / per_s, said.low_ms, said.high_ms)
                group = f"NVIDIA, {row.single if precision == 'fp32' else 'mixed'}, {row.gpu[:4]}"
                pairs.setdefault(group, {}).setdefault(name, []).append(pair)
        else:
            for name in predictors:
                ratio = Pair(
                    row.model, told[name, "fp32"] / told[name, "amp"], row.mixed_per_s / row.single_per_s
                )
                pairs.setdefault(f"NVIDIA, single over mixed, {row.gpu[:4]}", {}).setdefault(name, []).append(
                    ratio
                )
    scored = {
        group: {name: one for name, own in by.items() if (one := score(own)) is not None}
        for group, by in sorted(pairs.items())
    }
    return scored, left_out


def step_of(row: NvidiaRow, precision: str, layout: str) -> ImageRow:
    """The step of a row in one precision, as a row of image models without a time."""
    model, size, batch, parameters = _MODELS[row.model]
    return ImageRow(
        model, model, True, row.gpu, precision, layout, False, _VERSION, size, batch, 0.0, parameters
    )


def _read(one: Mapping[str, Any], heading: str) -> Sequence[NvidiaRow]:
    header: list[str] = one["header"]
    gpu = next((name for pattern, name in _GPUS if re.search(pattern, one["headings"][-1])), "")
    mixed = next((place for place, name in enumerate(header) if _throughput(name, "mixed")), -1)
    single = next((place for place, name in enumerate(header) if _throughput(name, "TF32", "FP32")), -1)
    if not gpu or min(mixed, single) < 0 or "GPUs" not in header:
        return ()
    found: list[NvidiaRow] = []
    for cells in one["rows"]:
        model = cells[header.index("Model")] if "Model" in header else one["source"].split("/")[-2]
        speeds = [re.sub(r"[^0-9.]", "", cells[place]) for place in (single, mixed)]
        if cells[header.index("GPUs")] != "1" or model not in _MODELS or not all(speeds):
            continue
        kind = "TF32" if "TF32" in header[single] else "FP32"
        found.append(NvidiaRow(model, gpu, kind, float(speeds[0]), float(speeds[1])))
    return found


def _throughput(name: str, *marks: str) -> bool:
    plain = name.lower()
    if any(word in plain for word in ("speedup", "scaling", "time", "batch", "accumul")):
        return False
    return any(mark.lower() in plain for mark in marks)
