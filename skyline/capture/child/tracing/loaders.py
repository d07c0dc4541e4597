"""Data loaders while shapes are traced: no worker processes, and a slow data set is not read over and over."""

from __future__ import annotations

import inspect
import time

from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching

_SLOW_S = 0.25
"""Of a batch that takes more computing than this no further samples are read, and of later ones only the fewest."""
_SAMPLES = 8
"""The fewest that are read."""
_PREFETCHED = 2
"""Batches that each worker fetches ahead unless it is told otherwise (PyTorch, torch.utils.data)."""


class Loaders:
    """Changes how loaders read; ``shortened`` tells whether samples were repeated instead of read."""

    def __init__(self, clock):
        self.shortened = False
        self.repeated = []
        """As ``skyline.trace.repeated_read``, by the nominal time that ``clock`` tells."""
        self._clock = clock
        self._asked = {}

    def install(self):
        """Patch the loader before the script makes one."""
        init = loading.DataLoader.__init__
        signature = inspect.signature(init)
        asked = self._asked

        def __init__(loader, *args, **kwargs):
            given = signature.bind(loader, *args, **kwargs)
            arguments = given.arguments
            workers = arguments.get("num_workers") or 0
            told = {
                "num_workers": workers,
                "pin_memory": bool(arguments.get("pin_memory")),
                "persistent_workers": bool(arguments.get("persistent_workers")),
                "prefetch_factor": arguments.get("prefetch_factor") or (_PREFETCHED if workers else None),
            }
            arguments.update(num_workers=0, pin_memory=False)
            if workers:
                for name in ("prefetch_factor", "timeout", "multiprocessing_context", "persistent_workers"):
                    arguments.pop(name, None)
            init(*given.args, **given.kwargs)
            asked[id(loader)] = told

        __init__.__wrapped__ = init
        loading.DataLoader.__init__ = __init__
        fetcher = fetching._MapDatasetFetcher
        fetcher.fetch = self._fetched(fetcher.fetch)

    def asked(self, loader):
        """What the script asked for beyond what is done here, by the names of ``skyline.trace.LoaderFact``."""
        return self._asked.get(id(loader), {})

    def _fetched(self, fetch):
        slow = set()

        def fetched(fetcher, indices):
            dataset = fetcher.dataset
            if not fetcher.auto_collation or getattr(dataset, "__getitems__", None):
                return fetch(fetcher, indices)
            indices, samples = list(indices), []
            began, start_us = time.process_time(), self._clock()
            for index in indices:
                samples.append(dataset[index])
                if time.process_time() - began > _SLOW_S:
                    slow.add(id(dataset))
                if len(samples) >= _SAMPLES and id(dataset) in slow:
                    break
            if len(samples) < len(indices):
                self.shortened = True
                times = len(indices) / len(samples)
                self.repeated.append({"start_us": start_us, "end_us": self._clock(), "times": times})
            return fetcher.collate_fn([samples[at % len(samples)] for at in range(len(indices))])

        return fetched
