"""The data loaders of a script: their settings, and counts of their batches."""

from __future__ import annotations

import numbers
import weakref


class ObservedLoader:
    """A DataLoader, or several that are created one after another on one line with the same settings.

    ``fetches`` counts their batches, ``iterations`` the training iterations that took at least one of them.
    The settings are read at construction, because in ``for batch in DataLoader(...)`` only the iterator survives.
    """

    def __init__(self, loader, created, settings):
        self.created = created
        self.settings = settings
        self.fetches = 0
        self.iterations = 0
        self._last_iteration = -1
        self.renew(loader)

    def renew(self, loader):
        """Follow this loader from now on."""
        self._sampler = _reference(loader._index_sampler)

    @property
    def ended(self):
        """True if neither the loader nor an iterator of it is left."""
        return self._sampler() is None

    def gave(self, iterator):
        """True if the iterator belongs to this loader: both share the sampler of indices."""
        sampler = self._sampler()
        return sampler is not None and sampler is getattr(iterator, "_index_sampler", None)

    def fetched(self, iteration):
        """Count a batch in iteration number ``iteration``."""
        self.fetches += 1
        if iteration != self._last_iteration:
            self._last_iteration = iteration
            self.iterations += 1


class ObservedLoaders:
    """All loaders that a script created, in order."""

    def __init__(self):
        self._seen = []

    def created(self, loader, line):
        """Add a loader that was created on this line."""
        settings = _settings(loader)
        for seen in self._seen:
            if seen.ended and seen.created == line and seen.settings == settings:
                seen.renew(loader)
                return
        self._seen.append(ObservedLoader(loader, line, settings))

    def fetched(self, iterator, iteration):
        """Count a batch of an iterator in training iteration number ``iteration``."""
        for seen in self._seen:
            if seen.gave(iterator):
                seen.fetched(iteration)
                return

    @property
    def fetches(self):
        """Number of batches from all loaders."""
        return sum(seen.fetches for seen in self._seen)

    def facts(self, leading):
        """A row for each loader that gave a batch. ``leading`` has the leading dimensions of the batches."""
        return [_fact(seen, leading) for seen in self._seen if seen.fetches]


def _fact(seen, leading):
    """A row of ``skyline.capture.events.LoaderSeen``. The size of a batch sampler is used if a batch had it.

    A sampler that takes each sample with some probability (Opacus) has batches of varying size: their mean is used.
    """
    settings = dict(seen.settings)
    of_sampler, mean = settings.pop("sampler_batch_size"), settings.pop("mean_batch_size")
    if settings["batch_size"] is None:
        settings["batch_size"] = of_sampler if of_sampler in leading else mean
    return {
        **settings,
        "fetches": seen.fetches,
        "iterations": seen.iterations,
        "created_line": seen.created,
    }


def _settings(loader):
    try:
        size = len(loader.dataset)
    except Exception:
        # The length is code of the script, and many datasets have none.
        size = None
    return {
        "batch_size": _whole(getattr(loader, "batch_size", None)),
        "sampler_batch_size": _whole(getattr(getattr(loader, "batch_sampler", None), "batch_size", None)),
        "mean_batch_size": _mean(getattr(loader, "batch_sampler", None)),
        "num_workers": getattr(loader, "num_workers", 0),
        "dataset_size": size,
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
        "prefetch_factor": getattr(loader, "prefetch_factor", None),
        **getattr(loader, "_skyline_asked", {}),
    }


def _mean(sampler):
    """The mean batch size of a sampler that takes each of ``num_samples`` with probability ``sample_rate``."""
    samples, rate = getattr(sampler, "num_samples", None), getattr(sampler, "sample_rate", None)
    if not isinstance(samples, numbers.Integral) or not isinstance(rate, float):
        return None
    return round(samples * rate) or None


def _whole(value):
    return int(value) if isinstance(value, numbers.Integral) else None


def _reference(sampler):
    try:
        return weakref.ref(sampler)
    except TypeError:
        # A list of indices does not support weak references.
        return lambda: sampler
