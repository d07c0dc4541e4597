"""Data loaders while shapes are traced: no worker processes, and a slow data set is not read over and over."""

from __future__ import annotations

import inspect
import time

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching

from .virtual import VirtualTensor

_SLOW_S = 0.25
"""Of a batch that takes more computing than this no further samples are read, and of later ones only the fewest."""
_SAMPLES = 8
"""The fewest that are read."""
_PREFETCHED = 2
"""Batches that each worker fetches ahead unless it is told otherwise (PyTorch, torch.utils.data)."""


class Loaders:
    """Changes how loaders read; ``shortened`` tells whether samples were repeated instead of read.

    With ``timing``, batches of the iterations that are not written down are read without being traced, and timed.
    """

    def __init__(self, tracer, *, timing=False):
        self.shortened = False
        self.repeated = []
        """As ``skyline.trace.repeated_read``, by the nominal time of the trace."""
        self.timed = []
        """As ``skyline.trace.timed_read``."""
        self._tracer = tracer
        self._timing = timing
        self._took_us = {}
        self._slow = set()

    def forget(self):
        """An iteration is written down anew."""
        self.repeated.clear()
        self.timed.clear()

    def install(self):
        """Patch the loader before the script makes one."""
        init = loading.DataLoader.__init__
        signature = inspect.signature(init)

        def __init__(loader, *args, **kwargs):
            given = signature.bind(loader, *args, **kwargs)
            arguments = given.arguments
            workers = arguments.get("num_workers") or 0
            # By the names of ``skyline.trace.LoaderFact``. Set before the loader is observed, at its constructor's end.
            loader._skyline_asked = {
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

        __init__.__wrapped__ = init
        loading.DataLoader.__init__ = __init__
        fetcher = fetching._MapDatasetFetcher
        fetcher.fetch = self._fetched(fetcher.fetch)

    def _fetched(self, fetch):
        def fetched(fetcher, indices):
            count = len(indices) if fetcher.auto_collation else 1
            key = id(fetcher.dataset), count
            if self._timing and not self._tracer.recording:
                found = self._timed(fetch, fetcher, indices, key)
                if found is not None:
                    return found
            start_us = self._tracer.rows.now_us
            batch, _ = self._read(fetch, fetcher, indices)
            if self._tracer.recording and self._took_us.get(key):
                end_us = self._tracer.rows.now_us
                self.timed.append({"start_us": start_us, "end_us": end_us, "took_us": self._took_us[key]})
            return batch

        return fetched

    def _read(self, fetch, fetcher, indices):
        """The batch, and how many samples it has for each that was read."""
        dataset = fetcher.dataset
        if not fetcher.auto_collation or getattr(dataset, "__getitems__", None):
            return fetch(fetcher, indices), 1.0
        indices, samples = list(indices), []
        began, start_us = time.process_time(), self._tracer.rows.now_us
        for index in indices:
            samples.append(dataset[index])
            if time.process_time() - began > _SLOW_S:
                self._slow.add(id(dataset))
            if len(samples) >= _SAMPLES and id(dataset) in self._slow:
                break
        times = len(indices) / max(1, len(samples))
        if times > 1:
            self.shortened = True
            self.repeated.append({"start_us": start_us, "end_us": self._tracer.rows.now_us, "times": times})
        return fetcher.collate_fn([samples[at % len(samples)] for at in range(len(indices))]), times

    def _timed(self, fetch, fetcher, indices, key):
        """The batch as it is read where nothing is traced; None where that cannot be, as with tensors of the GPU."""
        if self._took_us.get(key, 1.0) is None:
            return None
        began = time.perf_counter()
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                batch, times = self._read(fetch, fetcher, indices)
        except Exception:
            # What is wrong with it comes to light when it is read again.
            batch, times = None, 1.0
        took_us = (time.perf_counter() - began) * 1e6 * times
        if batch is None or not all(_is_ordinary(one) for one in _leaves(batch)):
            self._took_us[key] = None
            return None
        self._took_us[key] = min(took_us, self._took_us.get(key, took_us))
        return batch


def _leaves(batch):
    if isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        return [batch]
    return [leaf for one in batch for leaf in _leaves(one)]


def _is_ordinary(value):
    """Whether a tensor is one of the host's memory; whatever is no tensor is, too."""
    if isinstance(value, VirtualTensor):
        return False
    return not isinstance(value, torch.Tensor) or value.device.type == "cpu"
