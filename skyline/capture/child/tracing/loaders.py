"""Data loaders while shapes are traced: no worker processes, and a slow data set is not read over and over."""

from __future__ import annotations

import time

from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching

_SLOW_S = 0.25
"""A batch that takes more computing than this to read is the last that is read in full."""
_SAMPLES = 8


class Loaders:
    """Changes how loaders read; ``shortened`` tells whether samples were repeated instead of read."""

    def __init__(self):
        self.shortened = False
        self._workers = {}

    def install(self):
        """Patch the loader before the script makes one."""
        init = loading.DataLoader.__init__
        workers = self._workers

        def __init__(loader, *args, **kwargs):
            args = list(args)
            asked = args[5] if len(args) > 5 else kwargs.get("num_workers", 0)
            if len(args) > 5:
                args[5] = 0
            else:
                kwargs["num_workers"] = 0
            if asked:
                for name in ("prefetch_factor", "timeout", "multiprocessing_context"):
                    kwargs.pop(name, None)
                kwargs["persistent_workers"] = False
            kwargs["pin_memory"] = False
            init(loader, *args, **kwargs)
            workers[id(loader)] = asked

        __init__.__wrapped__ = init
        loading.DataLoader.__init__ = __init__
        fetcher = fetching._MapDatasetFetcher
        fetcher.fetch = self._fetched(fetcher.fetch)

    def workers_asked(self, loader):
        """How many worker processes the script asked for."""
        return self._workers.get(id(loader), 0)

    def _fetched(self, fetch):
        slow = set()

        def fetched(fetcher, indices):
            key = id(fetcher.dataset)
            if key in slow and fetcher.auto_collation and len(indices) > _SAMPLES:
                self.shortened = True
                samples = [fetcher.dataset[index] for index in list(indices)[:_SAMPLES]]
                return fetcher.collate_fn([samples[at % _SAMPLES] for at in range(len(indices))])
            began = time.process_time()
            batch = fetch(fetcher, indices)
            if time.process_time() - began > _SLOW_S:
                slow.add(key)
            return batch

        return fetched
