"""``deepspeed train.py``: one process per GPU, which gets its number as an argument."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline.errors import UsageError
from skyline.launchers.asked import Asked, options_before_script
from skyline.launchers.torchrun import ranks_below

FIRST_RANK = "--local_rank=0"
"""Every process gets such an argument with its own number."""

_FLAGS = {
    *("--force-multi", "--save-pid", "--enable-each-rank-log", "--no-python", "--no-local-rank", "--no-ssh"),
    *("--no-ssh-check", "--elastic-training", "--bind-cores-to-rank"),
}


def deepspeed(words: Sequence[str], _folder: Path) -> Asked:
    """The script that deepspeed starts. Without ``--num_gpus`` it is one process, for any number of GPUs."""
    options = options_before_script(words, _FLAGS)
    options.one_machine("--num-nodes")
    for name in ("-H", "--hostfile", "-i", "--include", "-e", "--exclude"):
        if options.values.get(name):
            message = f"{name} chooses machines or GPUs, which a profile does not follow"
            raise UsageError(message, hint="Give the number of processes: deepspeed --num_gpus 2 train.py")
    ranks = options.number("--num-gpus") or options.number("--num-accelerators") or 1
    first = () if "--no-local-rank" in options.values else (FIRST_RANK,)
    return ranks_below(options.rest, ranks, first)
