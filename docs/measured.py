"""The tables of the accuracy page, computed from the result files of ``benchmarks/results``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

_TRIED = ("measured", "interpolated", "tried")
RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one result file under one title."""

    title: str
    file: str
    public: bool
    """Only public scripts, on which no constant of a model was set; else only the examples of the repository."""


WHATIFS = (
    Group("ten public scripts, seen for the first time", "unseen_whatifs_18", True),
    Group("ten others, one with a layer of 52 million weights", "unseen_whatifs_17", True),
    Group("ten others, many with Kronecker products", "unseen_whatifs_16", True),
    Group("ten others, a quiet machine", "unseen_whatifs_15", True),
    Group("ten others, a noisy machine", "unseen_whatifs_14", True),
    Group("seven others, an earlier version", "unseen_whatifs_13", True),
    Group("one other, a measurement that other programs disturbed", "unseen_whatifs_12", True),
    Group("nine others, an earlier version", "unseen_whatifs_11", True),
    Group("four others, an earlier version", "unseen_whatifs_10", True),
    Group("seven others, an earlier version", "unseen_whatifs_9", True),
    Group("six others, an earlier version", "unseen_whatifs_8", True),
    Group("nine others, an earlier version", "unseen_whatifs_7", True),
    Group("eight others, an earlier version", "unseen_whatifs_6", True),
    Group("nine others, an earlier version", "unseen_whatifs_5", True),
    Group("eight others, an earlier version", "unseen_whatifs_4", True),
    Group("six others, an earlier version", "unseen_whatifs_3", True),
    Group("nine others, an earlier version", "unseen_whatifs", True),
    Group("public scripts", "whatifs_public", True),
    Group("public scripts, AMD processor", "whatifs_public_amd", True),
    Group("examples, AMD processor", "whatifs_amd", False),
    Group("examples", "whatifs", False),
    Group("examples, other combinations", "whatifs_triples_3", False),
)
CURVES = (Group("public scripts", "batch_curves", True), Group("examples", "batch_curves", False))


def whatif_rows() -> Iterator[tuple[str, ...]]:
    """Single changes, tried or modelled, and combinations of three, the held-out scripts and machines first."""
    for size, words in ((1, "single changes"), (3, "three changes together")):
        for group in WHATIFS:
            rows = [row for row in _rows(group) if len(row["said"]["names"]) == size]
            by_words: dict[str, list[dict[str, Any]]] = {}
            for row in rows:
                by_words.setdefault(_words(row, words), []).append(row)
            for title, own in sorted(by_words.items()):
                inside = [_contains(row["said"], row["measured"]) for row in own]
                yield _line(group, title, [abs(row["error"]) for row in own], inside)


def curve_rows() -> Iterator[tuple[str, ...]]:
    """Iteration times at batch sizes that the profile did not measure."""
    for group in CURVES:
        rows = list(_rows(group))
        inside = [_contains(row["row"]["said"], row["row"]["measured"]) for row in rows]
        yield _line(group, "batch sizes", [abs(row["error"]) for row in rows], inside)


def setting_rows() -> Iterator[tuple[str, ...]]:
    """Each place of settings: found, rewritten and undone, for each setting."""
    cells = json.loads((RESULTS / "setting_places.json").read_text(encoding="utf-8"))["figures"]["cells"]
    places: dict[str, list[str]] = {}
    for cell in cells:
        parts = (cell["found"], cell["rewritten"], cell["undone"])
        places.setdefault(cell["script"], []).append(", ".join("yes" if part else "no" for part in parts))
    yield from ((place, *words) for place, words in places.items())


def _rows(group: Group) -> Iterator[dict[str, Any]]:
    content = json.loads((RESULTS / f"{group.file}.json").read_text(encoding="utf-8"))
    for row in content["figures"]:
        script = row["script"] if "script" in row else row["row"]["script"]
        if row["valid"] and group.public != script.startswith("examples/"):
            yield row


def _line(group: Group, words: str, errors: Sequence[float], inside: Sequence[bool]) -> tuple[str, ...]:
    ranked = sorted(errors)
    ninetieth = ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))]
    return (
        f"[{group.title}](../benchmarks/results/{group.file}.md)",
        f"{len(ranked)} {words}",
        f"{median(ranked):.1%}",
        f"{ninetieth:.1%}",
        f"{ranked[-1]:.1%}",
        f"{sum(inside)} of {len(inside)}",
    )


def _words(row: dict[str, Any], words: str) -> str:
    """Single changes by their origin, where the file names it: parts of the script ran with the change, or a model."""
    origin = row["said"].get("provenance")
    if len(row["said"]["names"]) > 1 or origin is None:
        return words
    return f"{words}, {'tried' if origin in _TRIED else 'modelled'}"


def _contains(said: dict[str, float], measured: dict[str, float]) -> bool:
    """True if the measured value lies inside the predicted range."""
    return said["low"] <= measured["value"] <= said["high"]
