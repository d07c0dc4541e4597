"""Extends time limits of process groups, since other ranks wait while the observed rank waits for commands."""

from __future__ import annotations

import datetime
import functools
import inspect

import torch

_LEAST = datetime.timedelta(minutes=30)


def install():
    """Give every process group at least gloo's default time limit of 30 minutes; NCCL's default is 10 minutes."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    default = getattr(distributed_c10d, "_get_default_timeout", None)
    if default is not None:
        distributed_c10d._get_default_timeout = _at_least(default)
    for name in ("init_process_group", "new_group"):
        patient = _patient(getattr(distributed_c10d, name))
        # Both modules have their own reference to the function.
        setattr(distributed_c10d, name, patient)
        setattr(distributed, name, patient)


def _at_least(default):
    @functools.wraps(default)
    def limit(*args, **kwargs):
        return max(_LEAST, default(*args, **kwargs))

    return limit


def _patient(make):
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            # The call itself raises the best error.
            return make(*args, **kwargs)
        timeout = given.arguments.get("timeout")
        if timeout is not None and timeout < _LEAST:
            given.arguments["timeout"] = _LEAST
        return make(*given.args, **given.kwargs)

    return made
