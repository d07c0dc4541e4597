"""NVIDIA's published scaling from 1 to 8 GPUs, predicted from the throughput of one GPU and the model's size."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plan_rows import cluster_of

from skyline.errors import SkylineError
from skyline.plan.kernel_time import PartTime, WorkTime
from skyline.plan.layers import LayerPart, Layers
from skyline.plan.step import step_time
from skyline.plan.strategy import Precision, Strategy
from skyline.plan.work import Work

_FILE = "nvidia_examples.json"
_MODELS = {
    "resnet50v1.5": (25.6e6, 256),
    "resnext101-32x4d": (44.2e6, 128),
    "se-resnext101-32x4d": (49.0e6, 128),
    "efficientnet-b0": (5.3e6, 256),
    "efficientnet-b4": (19.3e6, 64),
    "LanguageModeling/BERT": (336e6, None),
    "LanguageModeling/BART": (406e6, None),
    "Transformer-XL base": (192e6, None),
    "Transformer-XL large": (285e6, None),
}
"""Parameters, and the batch of one GPU where the tables do not state it."""
_TOKENS = {"Transformer-XL base": 192, "Transformer-XL large": 384}
"""Tokens of a sequence, where the throughput counts tokens and the batch sequences (configurations of the examples)."""
_GPUS = (
    (r"A100.*80 ?GB?", "A100-80GB-SXM"),
    (r"A100", "A100-40GB"),
    (r"(V100|DGX-1|DGX-2).*32 ?GB?", "V100-SXM-32GB"),
    (r"V100|DGX-1", "V100-SXM"),
)
_BLOCKS = 16
_BACKWARD = 2 / 3


@dataclass(frozen=True, slots=True)
class Scaling:
    """Published and predicted efficiency of 8 GPUs: throughput over 8 times that of one."""

    model: str
    gpu: str
    precision: str
    published: float
    predicted: float


def scalings(folder: Path) -> tuple[list[Scaling], dict[str, int]]:
    """All tables with rows of 1 and of 8 GPUs at the same batch of one GPU."""
    path = folder / _FILE
    if not path.exists():
        return [], {f"{_FILE} is not in the folder": 1}
    found: list[Scaling] = []
    left_out: dict[str, int] = {}
    for table in json.loads(path.read_text(encoding="utf-8")):
        names = [name for name in table["header"] if re.fullmatch(r"#? ?GPUs", name.strip())]
        if not names or "raining" not in " ".join(table["headings"]):
            continue
        rows = [dict(zip(table["header"], row, strict=False)) for row in table["rows"]]
        for one in (row for row in rows if row[names[0]] == "1"):
            keys = [key for key in one if _same(key)]
            eight = next(
                (row for row in rows if row[names[0]] == "8" and all(row[key] == one[key] for key in keys)),
                None,
            )
            known = _known(table, one)
            if eight is None or known is None:
                reason = f"{_FILE}: no row of 8 GPUs at the same batch, or a model of unknown size"
                left_out[reason] = left_out.get(reason, 0) + 1
                continue
            found += _pairs(table, one, eight, *known)
    return found, left_out


def _same(key: str) -> bool:
    lowered = key.lower()
    return (
        any(word in lowered for word in ("model", "batch size / gpu", "sequence", "dataset"))
        and "accum" not in lowered
    )


def _known(table: dict[str, Any], row: dict[str, str]) -> tuple[str, float, int | None] | None:
    said = table["source"]
    name = row.get("Model", "")
    if name in _MODELS:
        return (name, *_MODELS[name])
    if "Transformer-XL" in said:
        name = f"Transformer-XL {'base' if 'Base' in ' '.join(table['headings']) else 'large'}"
        return (name, *_MODELS[name])
    for model, (parameters, batch) in _MODELS.items():
        if f"/{model}/" in said and "efficientnet" not in said:
            return model, parameters, batch
    return None


def _pairs(
    table: dict[str, Any],
    one: dict[str, str],
    eight: dict[str, str],
    model: str,
    parameters: float,
    batch: int | None,
) -> list[Scaling]:
    heading = " ".join(table["headings"])
    gpu = next((name for mark, name in _GPUS if re.search(mark, heading)), None)
    if gpu is None:
        return []
    found: list[Scaling] = []
    for column, value in one.items():
        if "hroughput" not in column or "speedup" in column.lower():
            continue
        first, last = _number(value), _number(eight[column])
        narrow = any(word in column.lower() for word in ("mixed", "bf16", "fp16")) and "TF32 to" not in column
        size = batch or _batch(one, narrow)
        if first is None or last is None or size is None:
            continue
        try:
            predicted = _efficiency(
                size * _TOKENS.get(model, 1) / first * 1e6 * _passes(one, size, narrow),
                parameters,
                gpu,
                narrow=narrow,
            )
        except SkylineError:
            continue
        found.append(Scaling(model, gpu, "mixed" if narrow else "single", last / (8 * first), predicted))
    return found


def _efficiency(step_us: float, parameters: float, gpu: str, *, narrow: bool) -> float:
    """The measured step of one GPU, in equal blocks, with an all-reduce of gradients under its backward pass."""
    cluster = cluster_of(gpu, 8)
    forward, backward = (step_us * share / _BLOCKS for share in (1 - _BACKWARD, _BACKWARD))
    time = PartTime(WorkTime(other_us=forward), WorkTime(other_us=backward), WorkTime())
    idle = PartTime(WorkTime(), WorkTime(), WorkTime())
    work = Work(
        Layers(LayerPart(parameters=parameters / _BLOCKS), _BLOCKS, LayerPart(), LayerPart()),
        time,
        idle,
        idle,
        single_device=True,
    )
    precision = Precision.PURE if narrow else Precision.MIXED
    step = step_time(work, Strategy(data=8, precision=precision), cluster)
    # The measured step has the update in it.
    return step_us / (step.compute_us + step.exposed_us)


def _number(text: str) -> float | None:
    found = re.match(r"[0-9][0-9,]*(?:\.[0-9]+)?", text.strip())
    return float(found[0].replace(",", "")) if found else None


def _passes(row: dict[str, str], size: float, narrow: bool) -> float:
    """Passes of a step that accumulates gradients; some tables state the batch of all passes together."""
    steps = _choice(row, "Accumulation steps", narrow) or 1.0
    return 1.0 if size >= 1024 else steps


def _batch(row: dict[str, str], narrow: bool) -> float | None:
    return _choice(row, "Batch size / GPU", narrow)


def _choice(row: dict[str, str], start: str, narrow: bool) -> float | None:
    for key, value in row.items():
        if key.lower().startswith(start.lower()):
            numbers = [float(one) for one in re.findall(r"\d+", value)]
            if numbers:
                return numbers[-1] if narrow else numbers[0]
    return None
