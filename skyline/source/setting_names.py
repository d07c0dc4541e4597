"""Settings that a training script reads from a file or an argument, recognised by the names of their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from skyline.source.batch_names import batch_rank, is_evaluation, words

_WORKER_WORDS = {"worker", "workers", "nworkers", "numworkers"}
_BESIDE_WORKERS = {
    *(
        "num",
        "number",
        "n",
        "nb",
        "of",
        "max",
        "count",
        "per",
        "gpu",
        "device",
        "data",
        "loader",
        "dataloader",
    ),
    *("dataloaders", "loading", "train", "training", "cpu", "iterator"),
}


class Setting(str, Enum):
    """A setting; the value is the name of the what-if that changes it."""

    BATCH_SIZE = "batch_size"
    NUM_WORKERS = "num_workers"
    GRAD_ACCUMULATION = "grad_accumulation"


def rank(setting: Setting, path: Sequence[str]) -> int | None:
    """Strength of a sequence of keys as an indication of a setting: 0 is its usual name, None is no indication.

    A key of an evaluation is no indication.
    """
    if not path or any(map(is_evaluation, path)):
        return None
    return _RANKS[setting](path)


def _batch_size(path: Sequence[str]) -> int | None:
    """``batch: {size: 16}`` is one name."""
    found = batch_rank(path[-1])
    if found is None and path[-1].lower() == "size" and len(path) > 1:
        found = batch_rank(f"{path[-2]}_size")
    return found


def _num_workers(path: Sequence[str]) -> int | None:
    named = set(words(path[-1]))
    if not named & _WORKER_WORDS or named - _WORKER_WORDS - _BESIDE_WORKERS:
        return None
    return 0 if "".join(words(path[-1])) == "numworkers" else 1


def _grad_accumulation(path: Sequence[str]) -> int | None:
    """``gradient_accumulation_steps``, ``accumulate_grad_batches``, ``accum_iter``."""
    return 0 if any(word.startswith("accum") for word in words(path[-1])) else None


_RANKS: dict[Setting, Callable[[Sequence[str]], int | None]] = {
    Setting.BATCH_SIZE: _batch_size,
    Setting.NUM_WORKERS: _num_workers,
    Setting.GRAD_ACCUMULATION: _grad_accumulation,
}
