"""Has the loaders of one line come up with another batch size, while the source stays as it is."""

from __future__ import annotations

import inspect
import os

from . import user_code


def install(asked):
    """``asked`` has the line (``file``, ``line``), the size that loaders have there, and the one that they get."""
    if not asked:
        return
    from torch.utils.data import dataloader as loading

    init = loading.DataLoader.__init__
    signature = inspect.signature(init)

    def __init__(loader, *args, **kwargs):
        try:
            given = signature.bind(loader, *args, **kwargs)
        except TypeError:
            return init(loader, *args, **kwargs)
        if _made_there(asked):
            _resize(given.arguments, asked["size"], asked["wanted"])
        return init(*given.args, **given.kwargs)

    __init__.__wrapped__ = init
    __init__.__doc__ = init.__doc__
    loading.DataLoader.__init__ = __init__


def _made_there(asked):
    place = user_code.innermost_line()
    return place is not None and (place["file"], place["line"]) == (
        os.path.realpath(asked["file"]),
        asked["line"],
    )


def _resize(arguments, size, wanted):
    sampler = arguments.get("batch_sampler")
    if sampler is not None:
        # The batches show the effect on a sampler of the user's.
        if getattr(sampler, "batch_size", None) == size:
            try:
                sampler.batch_size = wanted
            except AttributeError:
                return
    elif arguments.get("batch_size", 1) == size:
        arguments["batch_size"] = wanted
