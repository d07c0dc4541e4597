"""The models whose published steps set the constants of the predictor ``mixed``. All others are unseen."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from image_rows import ImageRow

MODELS = Path(__file__).with_name("mixed_models.json")


def write_models(rows: Iterable[ImageRow]) -> None:
    """Write the names of the models used in the fit, separately for training and inference."""
    found: dict[str, set[str]] = {"training": set(), "inference": set()}
    for row in rows:
        found[_mode(row)].add(row.model)
    content = {mode: sorted(names) for mode, names in found.items()}
    MODELS.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")


def seen(rows: Iterable[ImageRow]) -> list[ImageRow]:
    """The rows that set the constants."""
    models = _models()
    return [row for row in rows if row.model in models[_mode(row)]]


def unseen(rows: Iterable[ImageRow]) -> list[ImageRow]:
    """The rows of models that set no constant, neither in training nor in inference."""
    models = set[str]().union(*_models().values())
    return [row for row in rows if row.model not in models]


def _models() -> dict[str, set[str]]:
    """The names by mode."""
    content: dict[str, list[str]] = json.loads(MODELS.read_text(encoding="utf-8"))
    return {mode: set(names) for mode, names in content.items()}


def _mode(row: ImageRow) -> str:
    return "training" if row.training else "inference"
