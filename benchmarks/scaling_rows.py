"""NVIDIA's published tables as pairs of rows: the throughput of one GPU and of eight GPUs at equal batch per GPU."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = "nvidia_examples.json"
_COUNT = re.compile(r"(?:#|number of)? ?gpus", re.IGNORECASE)
_MIXED = re.compile(r"mixed|fp16|bf16|\bamp\b", re.IGNORECASE)
_SINGLE = re.compile(r"\b(?:tf32|fp32)\b", re.IGNORECASE)
_SCALING = re.compile(r"scaling", re.IGNORECASE)
_NO_SPEED = re.compile(r"speed-?up|batch|accum|latency|time|ratio|calibration|scaling|qat", re.IGNORECASE)
_SETTING = re.compile(r"^(?:model|dataset|dimension|sequence length|batch size (?:/|per) gpu)", re.IGNORECASE)
_BATCH = re.compile(r"^batch size (?:/|per) gpu", re.IGNORECASE)
_GPUS = (
    (r"A100.*80 ?GB?", "A100-80GB-SXM"),
    (r"A100", "A100-40GB"),
    (r"(V100|DGX-1|DGX-2).*32 ?GB?", "V100-SXM-32GB"),
    (r"V100|DGX-1|DGX-2", "V100-SXM"),
)
_WHOLE_BATCH = 1024
"""From this size on, a batch in a table with accumulation is the batch of all passes together."""
_HIGHEST = 1.1
"""Upper limit of the efficiency: eight GPUs are at most eight times as fast as one, apart from noise."""
_DISAGREES = 0.1
"""A table contradicts itself if its scaling column differs by more than this from its ratio of throughputs."""


@dataclass(frozen=True, slots=True)
class Example:
    """A published model: its parameters, and facts that are missing in its tables.

    ``batch`` is the batch of one GPU in mixed precision, ``single`` the batch on V100 in single precision. ``units`` is
    the number of units per sample that the throughput counts.
    """

    parameters: float
    batch: int | None = None
    single: int | None = None
    units: float = 1.0


_MELS = 566.0
"""Frames of a clip of LJSpeech: 6.57 s on average, at 22,050 samples/s and 256 samples per frame."""
_EXAMPLES: tuple[tuple[str, Example], ...] = (
    ("ConvNets .*efficientnet-widese-b4", Example(35.9e6, 64)),
    ("ConvNets .*efficientnet-widese-b0", Example(7.1e6, 256)),
    ("ConvNets .*efficientnet-b4", Example(19.3e6, 64)),
    ("ConvNets .*efficientnet-b0", Example(5.3e6, 256)),
    ("ConvNets .*se-resnext101-32x4d", Example(49.0e6, 128, 64)),
    ("ConvNets .*resnext101-32x4d", Example(44.2e6, 128, 64)),
    ("ConvNets .*resnet50", Example(25.6e6, 256, 112)),
    ("Detection/SSD", Example(23e6)),
    ("MaskRCNN", Example(44e6)),
    ("nnUNet", Example(31e6)),
    ("BART", Example(406e6)),
    ("BERT", Example(336e6)),
    ("ELECTRA", Example(110e6)),
    ("Transformer-XL .*base", Example(192e6, units=192)),
    ("Transformer-XL .*large", Example(285e6, units=384)),
    ("Translation/Transformer", Example(210e6)),
    ("GNMT", Example(160e6, units=50)),
    ("QuartzNet", Example(18.9e6)),
    ("Jasper", Example(333e6)),
    ("wav2vec", Example(95e6)),
    ("FastPitch", Example(45e6, units=_MELS)),
    ("Tacotron2 .*samples", Example(268e6, units=8000)),
    ("Tacotron2 .*mels", Example(28.2e6, units=_MELS)),
    ("TFT", Example(3e6)),
)
"""Parameters are those of the models' papers, batches and lengths those of the examples' scripts. Batches of ResNets
are from configs.yml; all else is written down from general knowledge, not looked up. ``samples`` is WaveGlow."""
_IMAGES = re.compile(r"PyTorch/(?:Classification|Detection)/|MaskRCNN")
"""Examples whose host decodes images."""


@dataclass(frozen=True, slots=True)
class ScalingPair:
    """One and eight GPUs at equal batch per GPU. ``step_us`` is a step of one GPU. None if its batch is unknown."""

    model: str
    code: str
    """The folder of the example. Models in one folder share a training script."""
    gpu: str
    mixed: bool
    published: float
    """Throughput of eight GPUs over eight times the throughput of one."""
    stated: float | None
    """The efficiency in the table's own column."""
    parameters: float | None
    step_us: float | None
    images: bool

    @property
    def contradiction(self) -> str:
        """The reason why the row cannot be right. Empty for most rows."""
        if self.published > _HIGHEST:
            return f"eight GPUs are {8 * self.published:.1f} times as fast as one"
        if self.stated is not None and abs(self.stated / self.published - 1) > _DISAGREES:
            return f"its throughputs scale {8 * self.published:.1f} times, its own column says {8 * self.stated:.1f}"
        return ""


def scaling_pairs(folder: Path) -> tuple[list[ScalingPair], dict[str, int]]:
    """All pairs of the tables in ``folder``, and the number of rows without a pair by reason."""
    path = folder / _FILE
    if not path.exists():
        return [], {f"{_FILE} is not in the folder": 1}
    found: list[ScalingPair] = []
    left_out: Counter[str] = Counter()
    for table in json.loads(path.read_text(encoding="utf-8")):
        count = next((name for name in table["header"] if _COUNT.fullmatch(name.strip())), None)
        if count is None or "raining" not in " ".join(table["headings"]):
            continue
        rows = [dict(zip(table["header"], row, strict=False)) for row in table["rows"]]
        settings = [name for name in table["header"] if _SETTING.match(name)]
        for one in (row for row in rows if row.get(count) == "1"):
            same = (row for row in rows if row.get(count) == "8" and _agree(row, one, settings))
            eight = next(same, None)
            if eight is None:
                left_out[f"{_FILE}: no row of 8 GPUs at the same batch of each"] += 1
                continue
            found += _pairs(table, one, eight)
    return found, dict(left_out)


def _agree(row: Mapping[str, str], other: Mapping[str, str], names: Sequence[str]) -> bool:
    return all(row.get(name) == other.get(name) for name in names)


def _pairs(table: Mapping[str, Any], one: Mapping[str, str], eight: Mapping[str, str]) -> list[ScalingPair]:
    heading = " ".join(table["headings"])
    gpu = next((name for mark, name in _GPUS if re.search(mark, heading)), None)
    if gpu is None:
        return []
    code = table["source"].partition("PyTorch/")[2].rpartition("/")[0]
    columns = [name for name in one if _precision(name) is not None and not _NO_SPEED.search(name)]
    told = [table["source"], one.get("Model", ""), *table["headings"][-1:], *columns]
    example = _example(" ".join(told))
    # A dimension is another network, a data set is not.
    name = " ".join(filter(None, (one.get("Model") or code.rpartition("/")[2], one.get("Dimension"))))
    if "Tacotron2" in code:
        name = "WaveGlow" if "samples" in " ".join(columns) else name
    found: list[ScalingPair] = []
    for column in columns:
        mixed = _precision(column) is True
        first, last = _number(one[column]), _number(eight[column])
        if not first or not last:
            continue
        batch = _batch(one, example, mixed=mixed, gpu=gpu)
        step = batch * example.units / first * 1e6 if batch and example else None
        if step is not None and batch is not None and batch < _WHOLE_BATCH:
            step *= _choice(one, re.compile("^accumulation steps", re.IGNORECASE), mixed=mixed) or 1.0
        scaling = next(
            (key for key in one if _SCALING.search(key) and _precision(key) is mixed),
            "",
        )
        stated = _number(eight.get(scaling, ""))
        found.append(
            ScalingPair(
                name,
                "ConvNets" if "ConvNets" in code else code,
                gpu,
                mixed,
                last / (8 * first),
                stated / 8 if stated else None,
                example.parameters if example else None,
                step,
                _IMAGES.search(table["source"]) is not None,
            )
        )
    return found


def _precision(column: str) -> bool | None:
    """True for mixed, False for single precision. None if the column names neither or both."""
    mixed, single = _MIXED.search(column) is not None, _SINGLE.search(column) is not None
    return mixed if mixed != single else None


def _example(told: str) -> Example | None:
    for pattern, example in _EXAMPLES:
        if re.search(pattern.replace(" .*", ".*"), told, re.IGNORECASE):
            return example
    return None


def _batch(row: Mapping[str, str], example: Example | None, *, mixed: bool, gpu: str) -> float | None:
    found = _choice(row, _BATCH, mixed=mixed)
    if found is None and example is not None:
        found = example.batch if mixed or not gpu.startswith("V100") else example.single or example.batch
    return found


def _choice(row: Mapping[str, str], name: re.Pattern[str], *, mixed: bool) -> float | None:
    """One number of a cell with a number per precision, such as ``100, 200``, ``8 and 16`` or ``10@FP16, 4@TF32``."""
    cell = next((value for key, value in row.items() if name.search(key)), "")
    by_name = {
        _MIXED.search(kind) is not None: float(number) for number, kind in re.findall(r"(\d+)@(\w+)", cell)
    }
    if by_name:
        return by_name.get(mixed)
    numbers = [float(one) for one in re.findall(r"\d+", cell)]
    return (numbers[-1] if mixed else numbers[0]) if numbers else None


def _number(text: str) -> float | None:
    found = re.match(r"[0-9][0-9,]*(?:\.[0-9]+)?", text.strip())
    return float(found[0].replace(",", "")) if found else None
