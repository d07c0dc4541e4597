"""How a script's data loader works, and how it would after the changes that are asked for together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skyline.trace.facts import LoaderFact
from skyline.whatif.scenario import Scenario
from skyline.whatif.subject import Subject

PREFETCH = 2
"""Batches that each worker prepares ahead: DataLoader's default ``prefetch_factor``."""


@dataclass(frozen=True, slots=True)
class LoaderSetting:
    """Worker processes (0: the script's own thread makes the batches), batches ahead of each, what outlives epochs."""

    workers: int
    prefetch: int = PREFETCH
    persistent: bool = False

    def asked(self, scenario: Scenario) -> LoaderSetting:
        """With what the question as a whole asks for."""
        choices = scenario.choices
        return replace(
            self,
            workers=_number(choices.get("num_workers", ""), self.workers),
            prefetch=_number(choices.get("prefetch_factor", ""), self.prefetch),
            persistent=self.persistent or "persistent_workers" in choices,
        )


def training_loader(baseline: Subject) -> LoaderFact | None:
    """The loader that delivered most batches; None where none did."""
    return max(baseline.script.loaders, key=lambda loader: loader.fetches_per_iteration, default=None)


def present_setting(baseline: Subject) -> LoaderSetting:
    """How batches are made in the graph. Predictions without known times make them in the script's own process."""
    loader = training_loader(baseline)
    read_here = not (baseline.on_gpu and baseline.script.timed_reads)
    if loader is None or (baseline.script.mode == "predicted" and read_here):
        return LoaderSetting(0)
    return LoaderSetting(loader.num_workers, loader.prefetch_factor or PREFETCH, loader.persistent_workers)


def iterations_per_epoch(baseline: Subject, batch_size: int | None) -> float | None:
    """How many iterations one pass over the data takes, at another batch size, too; None where it is not known."""
    loader = training_loader(baseline)
    if (
        loader is None
        or not loader.dataset_size
        or not loader.batch_size
        or loader.fetches_per_iteration <= 0
    ):
        return None
    factor = batch_size / baseline.script.batch_size if batch_size and baseline.script.batch_size else 1.0
    return max(1.0, loader.dataset_size / (loader.batch_size * factor * loader.fetches_per_iteration))


def threads_in(scenario: Scenario, baseline: Subject) -> int:
    """Threads that an operator is split over; on a GPU machine the script's thread only launches."""
    now = 1 if baseline.on_gpu else max(1, baseline.script.environment.intraop_threads)
    return _number(scenario.choices.get("cpu_threads", ""), now)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise
