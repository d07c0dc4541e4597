"""Process groups under observation: the other ranks wait while this one stands still between commands."""

from __future__ import annotations

import datetime
import functools

import torch

_LEAST = datetime.timedelta(minutes=30)


def install():
    """Give every process group at least the time limit that a group of gloo has by default."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    original = distributed.init_process_group

    @functools.wraps(original)
    def init_process_group(*args, **kwargs):
        timeout = kwargs.get("timeout")
        if timeout is not None and timeout < _LEAST:
            kwargs["timeout"] = _LEAST
        return original(*args, **kwargs)

    distributed.init_process_group = init_process_group
