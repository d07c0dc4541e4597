"""The environment of a script that is one of several ranks, as ``torchrun`` would give it."""

from __future__ import annotations

import os
import socket


def variables_of_first_rank(ranks: int) -> dict[str, str]:
    """For rank 0 of so many on this machine; the others have the same but for their own number."""
    world = str(ranks)
    variables = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "ROLE_RANK": "0",
        "GROUP_RANK": "0",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    if "OMP_NUM_THREADS" not in os.environ:
        # What torchrun sets, so that the ranks do not fight over the cores.
        variables["OMP_NUM_THREADS"] = "1"
    return variables


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
