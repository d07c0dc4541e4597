"""Data loaders while shapes are traced: batches are really read, in the script's own process, and timed by line."""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from statistics import median

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import dataloader as loading
from torch.utils.data._utils import fetch as fetching

from .. import user_code
from .virtual import VirtualTensor

_SLOW_S = 0.25
"""If a batch takes longer, no more of its samples are read, and only ``_SAMPLES`` of each later batch."""
_SAMPLES = 8
"""Minimum number of samples that are read."""
_PREFETCHED = 2
"""Default number of batches that each worker fetches ahead (PyTorch, torch.utils.data)."""
_READ = "read a batch"


class Loaders:
    """Changes how loaders read batches; ``shortened`` is true if samples were repeated instead of read.

    Batches are read without tracing, and timed: the model is virtual, its data are real. A data set that uses tensors
    on the GPU cannot be read in this way, and is traced like the rest of the script.
    """

    def __init__(self, tracer):
        self.shortened = False
        self.repeated = []
        """Rows of ``skyline.trace.facts.RepeatedRead``, with nominal times of the trace."""
        self.timed = []
        """Rows of ``skyline.trace.facts.TimedRead``."""
        self.untimed = 0
        """Number of batches in the recorded iteration whose time is unknown."""
        self._tracer = tracer
        self._reads = {}
        self._slow = set()

    def forget(self):
        """Drop the reads so far: an iteration is recorded again."""
        self.repeated.clear()
        self.timed.clear()
        self.untimed = 0

    def install(self):
        """Patch the loader; call it before the script creates one."""
        init = loading.DataLoader.__init__
        signature = inspect.signature(init)

        def __init__(loader, *args, **kwargs):
            given = signature.bind(loader, *args, **kwargs)
            arguments = given.arguments
            workers = arguments.get("num_workers") or 0
            # The names are those of ``skyline.trace.LoaderFact``. This is set before the end of the constructor, at
            # which the loader is observed.
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
        by_index, in_turn = fetching._MapDatasetFetcher, fetching._IterableDatasetFetcher
        by_index.fetch = self._fetched(by_index.fetch, again=True)
        in_turn.fetch = self._fetched(in_turn.fetch, again=False)

    def _fetched(self, fetch, *, again):
        """A wrapper of ``fetch``. ``again``: a batch that cannot be read without tracing can be read a second time."""

        def fetched(fetcher, indices):
            key = id(fetcher.dataset), len(indices) if fetcher.auto_collation else 1
            reads = self._reads.get(key)
            if reads is None:
                reads = self._reads[key] = _Reads(tried=again)
            batch = self._timed(fetch, fetcher, indices, reads) if reads.tried else None
            if batch is not None:
                if self._tracer.recording:
                    self._record(reads, batch)
                return batch
            if self._tracer.recording:
                self.untimed += 1
            start_us = self._tracer.rows.now_us
            batch, times, _ = self._read(fetch, fetcher, indices)
            if times > 1:
                self.repeated.append(
                    {"start_us": start_us, "end_us": self._tracer.rows.now_us, "times": times}
                )
            reads.tried = reads.tried or (not reads.failed and _is_ordinary(batch))
            return batch

        return fetched

    def _read(self, fetch, fetcher, indices):
        """The batch, the ratio of its samples to those that were read, and the seconds for a whole batch."""
        dataset = fetcher.dataset
        began, started = _now_s(), time.perf_counter()
        if (
            not fetcher.auto_collation
            or not isinstance(fetcher, fetching._MapDatasetFetcher)
            or getattr(dataset, "__getitems__", None)
        ):
            batch = fetch(fetcher, indices)
            return batch, 1.0, _now_s() - began
        indices, samples = list(indices), []
        for index in indices:
            samples.append(dataset[index])
            if time.perf_counter() - started > _SLOW_S:
                self._slow.add(id(dataset))
            if len(samples) >= _SAMPLES and id(dataset) in self._slow:
                break
        times = len(indices) / max(1, len(samples))
        self.shortened = self.shortened or times > 1
        read_s = _now_s() - began
        batch = fetcher.collate_fn([samples[at % len(samples)] for at in range(len(indices))])
        return batch, times, read_s * times + _now_s() - began - read_s

    def _timed(self, fetch, fetcher, indices, reads):
        """The batch, read without tracing; None if that is impossible, as with tensors on the GPU."""
        shares = LineShares()
        try:
            with _disable_current_modes(), torch._C.DisableTorchFunction(), _one_thread():
                shares.start()
                try:
                    batch, _, took_s = self._read(fetch, fetcher, indices)
                finally:
                    shares.stop()
        except StopIteration:
            raise
        except Exception:
            # An error in the script's own code will be raised when the batch is read again.
            batch = None
        if batch is None or not _is_ordinary(batch):
            reads.failed, reads.tried = True, False
            return None
        reads.took_us.append(took_s * 1e6)
        reads.lines.update(shares.counts(self._tracer.places))
        return batch

    def _record(self, reads, batch):
        """Record a read batch, with its time divided by line."""
        here = self._tracer.places.current()
        total = sum(reads.lines.values())
        shares = {line: count / total for line, count in reads.lines.items()} or {here.line: 1.0}
        took_us = median(reads.took_us)
        for line, share in sorted(shares.items(), key=lambda row: -row[1]):
            start_us = self._tracer.rows.now_us
            self._tracer.rows.host(_READ, here.on(line), kind="data")
            end_us = self._tracer.rows.now_us
            self.timed.append(
                {"start_us": start_us, "end_us": end_us, "took_us": took_us * share, "tensor_bytes": ()}
            )
        self.timed[-len(shares)]["tensor_bytes"] = [
            leaf.numel() * leaf.element_size() for leaf in _leaves(batch) if isinstance(leaf, torch.Tensor)
        ]


class _Reads:
    """The timed batches of one data set and one size; ``tried``: the next one is read without tracing."""

    __slots__ = ("failed", "lines", "took_us", "tried")

    def __init__(self, tried):
        self.took_us = []
        self.lines = Counter()
        self.tried = tried
        self.failed = False


@contextmanager
def _one_thread():
    """Use one thread for each operator, as in a worker process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _now_s():
    """A clock that excludes the time in which this thread waits for a processor, if the system reports that."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            queued_s = int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        queued_s = 0.0
    return time.perf_counter() - queued_s


def _is_ordinary(batch):
    """True if all tensors of a batch are in the host's memory."""
    return all(
        not isinstance(leaf, VirtualTensor)
        and (not isinstance(leaf, torch.Tensor) or leaf.device.type == "cpu")
        for leaf in _leaves(batch)
    )


def _leaves(batch):
    if isinstance(batch, Mapping):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        return [batch]
    return [leaf for one in batch for leaf in _leaves(one)]


_EVERY_S = 0.002


class LineShares:
    """Samples the calling thread between ``start`` and ``stop``, and counts samples by the innermost user line."""

    def __init__(self):
        self._seen = Counter()
        self._over = threading.Event()
        self._thread = None

    def start(self):
        """Watch the calling thread."""
        self._thread = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)
        self._thread.start()

    def stop(self):
        """Stop sampling; the counts are kept."""
        self._over.set()
        self._thread.join()

    def counts(self, places):
        """Number of samples by line number in ``places``; empty if the time was too short for any."""
        return Counter({places.number_of(code, line): count for (code, line), count in self._seen.items()})

    def _watch(self, watched):
        while not self._over.wait(_EVERY_S):
            # A frame keeps its variables alive, so that no reference to it may outlive the sample.
            frame = sys._current_frames().get(watched)
            while frame is not None and not user_code.is_user_file(frame.f_code.co_filename):
                frame = frame.f_back
            if frame is not None:
                self._seen[frame.f_code, user_code.line_number(frame)] += 1
            del frame
