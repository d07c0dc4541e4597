"""``torchrun``, ``python -m torch.distributed.run`` and the older ``torch.distributed.launch``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline.launchers.asked import Asked, options_before_script

_FLAGS = {"--standalone", "--no-python", "--use-env"}


def torchrun(words: Sequence[str], _folder: Path) -> Asked:
    """The script that torchrun starts; Skyline starts the ranks itself, all on this machine."""
    options = options_before_script(words, _FLAGS)
    options.one_machine("--nnodes")
    return ranks_below(options.rest, options.number("--nproc-per-node") or 1)


def ranks_below(words: tuple[str, ...], ranks: int, first: tuple[str, ...] = ()) -> Asked:
    """A number of processes of a command. Even a single process gets the variables of its process group."""
    from skyline.capture.script_launcher import variables_of_first_rank

    alone = tuple(variables_of_first_rank(1).items()) if ranks == 1 else ()
    return Asked(words, ranks, alone, first)
