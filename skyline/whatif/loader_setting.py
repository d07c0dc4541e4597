"""The work of a script's data loader, now and after the requested changes."""

from __future__ import annotations

from dataclasses import replace

from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment, LoaderFact
from skyline.trace.profile import Profile
from skyline.whatif.base import Scenario
from skyline.whatif.constant import Constant
from skyline.whatif.cost.shared_pages import copies_ms
from skyline.whatif.subject import Subject

_FORKING_MS, _EACH_MS = 22.0, 9.5
"""The time from the request for an epoch's first batch to its arrival, without making the batch: 27 to 40, 38
to 46 and 56 to 69 ms with 1, 2 and 4 forked workers (``benchmarks/worker_contention.py``)."""
_AFRESH_MS, _EACH_AFRESH_MS = 2500.0, 300.0
"""The same times if each worker is a fresh interpreter that imports the script and PyTorch again. Not measured here."""


def start_ms(profile: Profile, workers: int) -> Interval:
    """The time of a start of workers: until their first batch arrives, without making it, and for copies of memory.

    Forked workers share the script's pages. The copies take longer than the fork if an iteration uses much memory.
    """
    environment = profile.environment
    if workers <= 0:
        return Interval.exact(0.0)
    if starts_afresh(environment):
        typical = _AFRESH_MS + _EACH_AFRESH_MS * (workers - 1)
        return Interval(typical, 0.4 * typical, 3.0 * typical)
    # A process with more memory takes longer to fork, as its page tables are copied.
    typical = _FORKING_MS + _EACH_MS * workers
    return Interval(typical, 0.6 * typical, 2.5 * typical).plus(copies_ms(profile))


def starts_afresh(environment: Environment) -> bool:
    """True if worker processes start as fresh interpreters. They are forked only on Linux, before Python 3.14."""
    version = tuple(int(part) for part in environment.python.split(".")[:2] if part.isdigit())
    return not environment.platform.lower().startswith("linux") or version >= (3, 14)


_LEAST_ITERATIONS = Constant.at(2.0, "in shorter epochs, most iterations are the first of their epoch")
PREFETCH = 2
"""Batches that each worker prepares ahead: DataLoader's default ``prefetch_factor``."""


@dataclass(frozen=True, slots=True)
class LoaderSetting:
    """The worker processes (0: the script's own thread makes the batches), their prefetch, and their persistence."""

    workers: int
    prefetch: int = PREFETCH
    persistent: bool = False

    def asked(self, scenario: Scenario) -> LoaderSetting:
        """This setting with the changes that the whole question asks for."""
        choices = scenario.choices
        return replace(
            self,
            workers=_number(choices.get("num_workers", ""), self.workers),
            prefetch=_number(choices.get("prefetch_factor", ""), self.prefetch),
            persistent=self.persistent or "persistent_workers" in choices,
        )


def training_loader(baseline: Subject) -> LoaderFact | None:
    """The loader that delivered the most batches; None if there is none."""
    return max(baseline.script.loaders, key=lambda loader: loader.fetches_per_iteration, default=None)


def present_setting(baseline: Subject) -> LoaderSetting:
    """The workers that make batches in the graph; none for predictions without known loading times."""
    loader = training_loader(baseline)
    read_here = not (baseline.on_gpu and baseline.script.timed_reads)
    if loader is None or (baseline.script.mode == "predicted" and read_here):
        return LoaderSetting(0)
    return LoaderSetting(loader.num_workers, loader.prefetch_factor or PREFETCH, loader.persistent_workers)


def iterations_per_epoch(baseline: Subject, batch_size: int | None) -> float | None:
    """The number of iterations in one pass over the data at this batch size; None if unknown."""
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
    """The number of threads that an operator is split over; with a GPU the script's thread only launches work."""
    now = 1 if baseline.on_gpu else max(1, baseline.script.environment.intraop_threads)
    return _number(scenario.choices.get("cpu_threads", ""), now)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


def with_start(scenario: Scenario, baseline: Subject, setting: LoaderSetting, load_us: float) -> Scenario:
    """The scenario with the start-up cost of new workers, spread over the iterations of an epoch if known.

    The cost includes making the first batch, which no worker can prepare in advance.
    """
    if setting.workers == 0 or present_setting(baseline).workers:
        return scenario
    first_ms = Interval.exact(load_us / 1e3)
    cost = start_ms(baseline.script, setting.workers).plus(first_ms)
    many = iterations_per_epoch(baseline, scenario.batch_size)
    if setting.persistent:
        said = f"the workers are started once, in about {cost.value:.0f} ms"
        return scenario.changed(scenario.graph, one_off_s=cost.scaled(1e-3), assumptions=(said,))
    if many is None:
        said = f"starting the workers, about {cost.value:.0f} ms in each epoch, is not counted"
        return scenario.changed(scenario.graph, assumptions=(said,))
    each = cost.scaled(1 / many)
    said = f"starting the workers, about {cost.value:.0f} ms in each epoch, is spread over its {many:.0f} iterations"
    return once_in_an_epoch(
        scenario, longer(scenario.graph, baseline, each.value), each, iterations=many, assumptions=(said,)
    )


def in_every_iteration(epoch: float) -> bool:
    """True if the typical iteration is the first of an epoch of so many iterations."""
    return epoch < _LEAST_ITERATIONS.value


def once_in_an_epoch(
    scenario: Scenario, graph: Graph, each: Interval, *, iterations: float, assumptions: tuple[str, ...]
) -> Scenario:
    """The scenario with ``graph``, which holds an iteration's share ``each`` in ms of a cost of every epoch.

    The typical iteration has no such cost, except in an epoch of one iteration.
    """
    if not in_every_iteration(iterations):
        return scenario.changed(graph, occasional=each, assumptions=assumptions)
    below_ms, above_ms = each.value - each.low, each.high - each.value
    return scenario.changed(graph, below_ms=below_ms, above_ms=above_ms, assumptions=assumptions)


def shorter_on_average(graph: Graph, baseline: Subject, saved_ms: float, beside_ms: float) -> Graph:
    """The graph shortened by the ratio of ``saved_ms`` to the mean iteration.

    A graph holds the typical iteration, which leaves out work that only a few iterations do: ``beside_ms`` of
    the mean iteration. Subtracting milliseconds from it could leave nothing.
    """
    share = saved_ms / max(beside_ms + baseline.iteration_ms.value, saved_ms, 1e-9)
    return scale(graph, select(graph), max(0.0, 1.0 - share), gaps=True)


def longer(graph: Graph, baseline: Subject, more_ms: float) -> Graph:
    """The graph with each iteration longer or shorter by ``more_ms``, all work scaled in proportion."""
    now_ms = baseline.step_ms(graph)
    if now_ms <= 0:
        return graph
    return scale(graph, select(graph), max(0.0, (now_ms + more_ms) / now_ms), gaps=True)
