"""The work of a script's data loader, now and after the changes that are asked for together."""

from __future__ import annotations

from dataclasses import replace

from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment, LoaderFact
from skyline.whatif.base import Scenario
from skyline.whatif.subject import Subject

_FORKING_MS, _EACH_MS = 22.0, 9.5
"""From asking for an epoch's first batch until it is there, beyond making it: 27 to 40, 38 to 46 and 56 to 69 ms
with 1, 2 and 4 workers that are forked (``benchmarks/worker_contention.py``)."""
_AFRESH_MS, _EACH_AFRESH_MS = 2500.0, 300.0
"""Where each worker is a fresh interpreter that imports the script and PyTorch again: seconds; not measured here."""


def start_ms(environment: Environment, workers: int) -> Interval:
    """Until workers deliver their first batch, beyond making it."""
    if workers <= 0:
        return Interval.exact(0.0)
    if starts_afresh(environment):
        typical = _AFRESH_MS + _EACH_AFRESH_MS * (workers - 1)
        return Interval(typical, 0.4 * typical, 3.0 * typical)
    # A process with more memory takes longer to fork, as its page tables are copied.
    typical = _FORKING_MS + _EACH_MS * workers
    return Interval(typical, 0.6 * typical, 2.5 * typical)


def starts_afresh(environment: Environment) -> bool:
    """True if worker processes start from nothing, not by a fork: not on Linux, and from Python 3.14 nowhere."""
    version = tuple(int(part) for part in environment.python.split(".")[:2] if part.isdigit())
    return not environment.platform.lower().startswith("linux") or version >= (3, 14)


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
    """The workers that make batches in the graph. Predictions without known times have none."""
    loader = training_loader(baseline)
    read_here = not (baseline.on_gpu and baseline.script.timed_reads)
    if loader is None or (baseline.script.mode == "predicted" and read_here):
        return LoaderSetting(0)
    return LoaderSetting(loader.num_workers, loader.prefetch_factor or PREFETCH, loader.persistent_workers)


def iterations_per_epoch(baseline: Subject, batch_size: int | None) -> float | None:
    """The number of iterations of one pass over the data, at another batch size, too; None where it is not known."""
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


def with_start(scenario: Scenario, baseline: Subject, setting: LoaderSetting, load_us: float) -> Scenario:
    """With the start of workers that were not there before, spread over an epoch's iterations where those are known.

    Whoever waits for the first worker waits for the first batch, too, which nobody makes ahead.
    """
    if setting.workers == 0 or present_setting(baseline).workers:
        return scenario
    first_ms = Interval.exact(load_us / 1e3)
    cost = start_ms(baseline.script.environment, setting.workers).plus(first_ms)
    many = iterations_per_epoch(baseline, scenario.batch_size)
    if setting.persistent:
        said = f"the workers are started once, in about {cost.value:.0f} ms"
        return scenario.changed(scenario.graph, one_off_s=cost.scaled(1e-3), assumptions=(said,))
    if many is None:
        said = f"starting the workers, about {cost.value:.0f} ms in each epoch, is not counted"
        return scenario.changed(scenario.graph, assumptions=(said,))
    each = cost.scaled(1 / many)
    return scenario.changed(
        longer(scenario.graph, baseline, each.value),
        occasional=each,
        assumptions=(
            f"starting the workers, about {cost.value:.0f} ms in each epoch, is spread over its {many:.0f} iterations",
        ),
    )


def shorter_on_average(graph: Graph, baseline: Subject, saved_ms: float, beside_ms: float) -> Graph:
    """The graph shorter by the share that ``saved_ms`` is of a mean iteration.

    The typical iteration, which a graph holds, leaves out what only few take: ``beside_ms`` of the mean one.
    Shorter by milliseconds it could end up at nothing.
    """
    share = saved_ms / max(beside_ms + baseline.iteration_ms.value, saved_ms, 1e-9)
    return scale(graph, select(graph), max(0.0, 1.0 - share), gaps=True)


def longer(graph: Graph, baseline: Subject, more_ms: float) -> Graph:
    """The graph with each iteration so much longer, or shorter, all of its work in proportion."""
    now_ms = baseline.step_ms(graph)
    if now_ms <= 0:
        return graph
    return scale(graph, select(graph), max(0.0, (now_ms + more_ms) / now_ms), gaps=True)
