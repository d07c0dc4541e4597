"""Step times of published models on this GPU, in each number format and layout, without Skyline.

Each row has the median time of a step by GPU events, its spread, the sum of its kernels (from one recorded step) and
the peak of memory. Each row is measured in its own process, because a recorder of kernels may stay attached to a
process and slow every later launch. Rows are written as they are measured. ``gpu_models_predicted.py`` compares
predictions with them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
from gpu_models_training import build

IMAGES = {
    "resnet18": 128,
    "resnet50": 64,
    "resnet152": 32,
    "resnext50_32x4d": 64,
    "wide_resnet50_2": 64,
    "densenet121": 64,
    "vgg16": 64,
    "inception_v3": 64,
    "efficientnet_b0": 128,
    "mobilenetv3_large_100": 128,
    "regnety_016": 64,
    "convnext_tiny": 64,
    "vit_base_patch16_224": 64,
    "deit_small_patch16_224": 128,
    "swin_tiny_patch4_window7_224": 64,
    "mixer_b16_224": 64,
}
LANGUAGES = {"gpt2": 16, "gpt2_medium": 8, "bert_base": 64, "bert_large": 16, "llama_160m": 8, "t5_small": 32}
_IMAGE_SETTINGS = (("float32", False), ("amp", False), ("amp", True), ("bf16", False))
_LANGUAGE_SETTINGS = (("float32", False), ("tf32", False), ("amp", False), ("bf16", False))
_WARM, _LONGEST_S, _MOST, _FEWEST = 4, 1.0, 30, 6


def settings() -> list[tuple[str, int, str, bool]]:
    """The settings of all rows in the order of measurement: first one setting of each model."""
    images = [(name, batch, *one) for one in _IMAGE_SETTINGS for name, batch in IMAGES.items()]
    languages = [(name, batch, *one) for one in _LANGUAGE_SETTINGS for name, batch in LANGUAGES.items()]
    each = [row for pair in zip(_IMAGE_SETTINGS, _LANGUAGE_SETTINGS, strict=True) for row in pair]
    order = {setting: place for place, setting in reversed(list(enumerate(each)))}
    return sorted(images + languages, key=lambda row: order[row[2], row[3]])


def measure(name: str, batch: int, form: str, channels_last: bool) -> dict[str, object]:
    """Measure one row."""
    torch.set_float32_matmul_precision("highest")
    torch.cuda.reset_peak_memory_stats()
    model, loss_of = build(name, batch, form, channels_last, torch.device("cuda"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=form == "amp")

    def step() -> None:
        loss = loss_of()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    for _ in range(_WARM):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = max(_FEWEST, min(_MOST, int(_LONGEST_S / (time.perf_counter() - began))))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    steps = [before.elapsed_time(after) for before, after in pairwise(marks)]
    peak = torch.cuda.max_memory_allocated()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as taken:
        step()
        torch.cuda.synchronize()
    kernels = [event for event in taken.events() or () if event.device_type.name == "CUDA"]
    return {
        "model": name,
        "batch": batch,
        "format": form,
        "channels_last": channels_last,
        "step_ms": statistics.median(steps),
        "mean_ms": statistics.fmean(steps),
        "low_ms": min(steps),
        "high_ms": max(steps),
        "steps": count,
        "kernels": len(kernels),
        "kernels_ms": sum(event.time_range.elapsed_us() for event in kernels) / 1e3,
        "peak_bytes": peak,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=4.0, help="for how long (default: 4)")
    parser.add_argument("--only", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="rows, one JSON object per line"
    )
    options = parser.parse_args()
    if options.only:
        _measure_alone(options.only, options.out)
        return
    end = time.monotonic() + options.minutes * 60
    done: set[tuple[object, ...]] = set()
    if options.out.exists():
        known = [json.loads(line) for line in options.out.read_text(encoding="utf-8").splitlines()]
        done = {(row["model"], row["batch"], row["format"], row["channels_last"]) for row in known}
    for one in settings():
        if one in done or time.monotonic() > end:
            continue
        name, batch, form, channels_last = one
        own = [sys.executable, __file__, "--out", str(options.out), "--only", name, str(batch), form]
        subprocess.run([*own, str(int(channels_last))], check=False)


def _measure_alone(only: list[str], out: Path) -> None:
    one = (only[0], int(only[1]), only[2], only[3] == "1")
    row: dict[str, object] = dict(zip(("model", "batch", "format", "channels_last"), one, strict=True))
    try:
        row = measure(*one)
    except Exception as error:  # a model that does not train here costs its own row alone
        row["error"] = f"{type(error).__name__}: {error}"[:300]
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(*one, row.get("step_ms", ""), "ms", row.get("error", ""), flush=True)


if __name__ == "__main__":
    main()
