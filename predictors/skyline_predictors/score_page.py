"""A readable page of scores: one table for each kind of measurement, predictors side by side."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

_TITLES = {
    "models": "Whole models, as written",
    "compiled models": "Whole models, fused by a compiler",
    "forward nodes": "Nodes inside of models, forward, of 50 µs and more",
    "backward nodes": "Nodes inside of models, backward, of 50 µs and more",
    "kernels": "Kernels by themselves",
    "new shapes on measured GPUs": "Kernels of new shapes on the GPUs that were learned from",
    "kernels in 16 bits": "Products in float16 by themselves",
}
_WEIGHTED = frozenset({"forward nodes", "backward nodes"})
_INTRODUCTION = """Errors are mean |predicted / measured - 1|; behind them, in brackets, the mean with its sign. Of
nodes the error weighted by time stands first, then the plain mean. *inside* is the share of measured times that lie in
the default predictor's intervals, which are meant to hold nine in ten. Unseen GPUs are those of which no kernel was
learned from or calibrated with. Predictions marked *published* come with the data. All but the last table is float32
without TF32, with eager attention, without optimizer and data loading: it says nothing of 16-bit formats or fused
attention. The last table has the nine products in float16 that come with the data, all on an H100."""


def provenance(split: str) -> dict[str, object]:
    """Versions, machine and date behind the scores."""
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "skyline": _version(),
        "split": split,
    }


def page(content: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    head = (
        f"{content['when']}: {content['machine']}, Skyline {content['skyline']}, split `{content['split']}`"
    )
    parts = ["# Predictors against measured times", head, _INTRODUCTION.replace("\n", " ")]
    for name, rows in content["tables"].items():
        parts += [f"## {_TITLES.get(name, name)}", _table(name, rows)]
    far = content["models further off than 30 %"]
    parts.append("## Models further off than 30 %")
    parts.append(
        "\n".join(
            f"- {name}: "
            + (", ".join(f"{one['model']} on {one['gpu']} ({one['error']:+.0%})" for one in found) or "none")
            for name, found in far.items()
        )
    )
    missing = content["models without a graph"]
    if missing:
        parts.append(f"Measured, but without a graph to predict from: {', '.join(missing)}.")
    left_out = [
        f"- {one['why']}" + (f" ({one['rows']} rows)" if one["rows"] else "") for one in content["left out"]
    ]
    if left_out:
        parts += ["## Left out", "\n".join(left_out)]
    return "\n\n".join(parts) + "\n"


def _table(name: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    predictors = list(dict.fromkeys(predictor for by_name in rows.values() for predictor in by_name))
    head = ["", "rows", *predictors, "inside"]
    lines: list[list[str]] = []
    for title, by_name in rows.items():
        counts = sorted({one["rows"] for one in by_name.values()})
        cells = [
            _cell(by_name[one], weighted=name in _WEIGHTED) if one in by_name else "" for one in predictors
        ]
        covered = by_name.get("mixed", by_name.get("learned", {})).get("covered")
        inside = "" if covered is None else f"{covered:.0%}"
        lines.append([title, "-".join(map(str, (counts[0], counts[-1])[: len(counts)])), *cells, inside])
    return _markdown(head, lines)


def _cell(one: Mapping[str, float], *, weighted: bool) -> str:
    if weighted:
        return f"{one['weighted']:.1%} / {one['mean']:.1%}"
    return f"{one['mean']:.1%} ({one['bias']:+.1%})"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def _version() -> str:
    try:
        return metadata.version("skyline-profiler")
    except metadata.PackageNotFoundError:
        return "from its sources"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
