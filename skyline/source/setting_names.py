"""Names in a training script that indicate a setting such as the batch size, a training loader or an evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SHORT = {"bs", "bsz", "bsize", "batch", "minibatch", "nbatch"}
_EVALUATION = {
    "test", "tests", "testing", "tst", "val", "valid", "validation", "validate", "eval", "evals",
    "evaluate", "evaluation", "dev", "predict", "prediction", "inference", "infer", "holdout", "sample",
    "sampling",
}  # fmt: skip
_TRAINING = {"train", "training", "trn", "trainer", "fit", "pretrain", "finetune"}
# ``trainloader`` and ``testset`` are commonly written as one word.
_RUN_TOGETHER = re.compile(
    r"(train|test|val|valid|eval|dev)(ing)?(set|loader|data|dataset|dataloader|iter|dl|ds)s?$"
)
_OTHER_MEANING = {
    "hidden", "embed", "embedding", "embd", "dim", "dims", "dimension", "channel", "channels",
    "feature", "features", "head", "heads", "layer", "layers", "depth", "seq", "sequence", "length",
    "len", "worker", "workers", "epoch", "epochs", "width", "height", "class", "classes", "vocab",
    "block", "context", "seed", "lr", "resolution", "kernel", "stride", "padding", "prefetch",
    "capacity", "patience", "rank", "iters",
}  # fmt: skip
_WORKER_WORDS = {"worker", "workers", "nworkers", "numworkers"}
_BESIDE_WORKERS = {
    "num", "number", "n", "nb", "of", "max", "count", "per", "gpu", "device", "data", "loader",
    "dataloader", "dataloaders", "loading", "train", "training", "cpu", "iterator",
}  # fmt: skip


def words(name: str) -> tuple[str, ...]:
    """``train_batchSize`` as ``("train", "batch", "size")``."""
    parts: list[str] = []
    for word in _WORD.findall(name):
        joined = _RUN_TOGETHER.match(word.lower())
        parts += [joined[1], joined[3]] if joined else [word.lower()]
    return tuple(parts)


def batch_rank(name: str) -> int | None:
    """Strength of a name as an indication of the batch size: 0 is ``batch_size`` itself, None is no indication."""
    parts = words(name)
    joined = "".join(parts)
    if joined == "batchsize":
        return 0
    if "batchsize" in joined:
        return 1
    if (joined in _SHORT) or (parts and parts[-1] in {"bs", "bsz"}):
        return 2
    return 3 if name == "B" else None


def is_batch_name(name: str) -> bool:
    """True if a name explicitly says that it is a batch size."""
    return batch_rank(name) is not None


def is_evaluation(name: str) -> bool:
    """True if a name refers to validation or testing and not also to training."""
    parts = set(words(name))
    return bool(parts & _EVALUATION) and not parts & _TRAINING


def is_training(name: str) -> bool:
    """True if a name refers to training."""
    return bool(set(words(name)) & _TRAINING)


def means_something_else(name: str) -> bool:
    """True if a name explicitly refers to another size than the batch size."""
    return not is_batch_name(name) and bool(set(words(name)) & _OTHER_MEANING)


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
    """The rank of a batch size; ``batch: {size: 16}`` counts as one name."""
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
    """The rank of ``gradient_accumulation_steps``, ``accumulate_grad_batches``, ``accum_iter``."""
    return 0 if any(word.startswith("accum") for word in words(path[-1])) else None


_RANKS: dict[Setting, Callable[[Sequence[str]], int | None]] = {
    Setting.BATCH_SIZE: _batch_size,
    Setting.NUM_WORKERS: _num_workers,
    Setting.GRAD_ACCUMULATION: _grad_accumulation,
}
