"""Names that indicate a batch size, a training loader or an evaluation loader."""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SHORT = {"bs", "bsz", "bsize", "batch", "minibatch", "nbatch"}
_EVALUATION = {
    *(
        "test",
        "tests",
        "testing",
        "tst",
        "val",
        "valid",
        "validation",
        "validate",
        "eval",
        "evals",
        "evaluate",
    ),
    *("evaluation", "dev", "predict", "prediction", "inference", "infer", "holdout", "sample", "sampling"),
}
_TRAINING = {"train", "training", "trn", "trainer", "fit", "pretrain", "finetune"}
# ``trainloader`` and ``testset`` are commonly written as one word.
_RUN_TOGETHER = re.compile(
    r"(train|test|val|valid|eval|dev)(ing)?(set|loader|data|dataset|dataloader|iter|dl|ds)s?$"
)
_OTHER_MEANING = {
    *("hidden", "embed", "embedding", "embd", "dim", "dims", "dimension", "channel", "channels", "feature"),
    *("features", "head", "heads", "layer", "layers", "depth", "seq", "sequence", "length", "len", "worker"),
    *(
        "workers",
        "epoch",
        "epochs",
        "width",
        "height",
        "class",
        "classes",
        "vocab",
        "block",
        "context",
        "seed",
    ),
    *("lr", "resolution", "kernel", "stride", "padding", "prefetch", "capacity", "patience", "rank", "iters"),
}


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
