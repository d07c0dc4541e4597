"""SKY102: the script waits for loader workers that are too slow."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import best_cure, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import LoaderFact
from skyline.units import format_ms, plural
from skyline.whatif.cost.loader_model import COSTS, cores_of
from skyline.whatif.cost.worker_queue import loader_and_compute_us
from skyline.whatif.loader_setting import PREFETCH, present_setting, training_loader
from skyline.whatif.recording import Recording, has_loader_workers
from skyline.whatif.subject import Subject

_SHARE = 0.05
"""Threshold of the TensorBoard plug-in: 5 % of a step (``torch_tb_profiler``, ``data.py``)."""
_WAITED = 1.5
"""A fetch counts as waiting if it takes this many times the time to take a ready batch."""


@dataclass(frozen=True, slots=True)
class SlowWorkers:
    """More than a twentieth of the iteration is waiting for batches from workers."""

    code: str = "SKY102"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the construction of the DataLoader; the cost is the wait beyond taking a ready batch."""
        if subject.recording is not None:
            return self._of_trace(subject, subject.recording)
        loader = training_loader(subject)
        if loader is None or present_setting(subject).workers == 0:
            return None
        waited_us, _ = loader_and_compute_us(subject.outline, subject.lane)
        taking_us = COSTS.taken_us(float(subject.batch_bytes), len(subject.batch_tensors)) * max(
            1.0, loader.fetches_per_iteration
        )
        total_ms = step_ms(subject)
        cost_ms = (waited_us - taking_us) / 1e3
        path = subject.critical_path if subject.on_gpu else None
        if path is not None:
            cost_ms = min(cost_ms, path.data * total_ms)
        if cost_ms <= _SHARE * total_ms:
            return None
        workers = plural(loader.num_workers, "worker")
        cure, _ = best_cure(subject, ("num_workers", "prefetch_factor"))
        return Finding.at(
            self.code,
            f"{cost_ms / total_ms:.0%} of the iteration is waiting for data from the DataLoader's {workers}",
            loader.created_line,
            cost_ms,
            cure,
            _measured(subject, loader, taking_us) if subject.has_run else _read(subject),
        )

    def _of_trace(self, subject: Subject, recording: Recording) -> Finding | None:
        if not has_loader_workers(recording):
            return None
        path, total_ms = subject.critical_path, step_ms(subject)
        if path.data <= _SHARE:
            return None
        title = f"{path.data:.0%} of a step is waiting for data from the DataLoader's worker processes"
        return Finding.at(self.code, title, None, path.data * total_ms)


def _measured(subject: Subject, loader: LoaderFact, taking_us: float) -> tuple[Evidence, ...]:
    slow = sum(waited > _WAITED * taking_us / 1e3 for waited in subject.script.times.data_ms)
    many = len(subject.script.times.data_ms)
    return (
        Evidence(f"the script waited for the batch in {slow} of {many} measured iterations"),
        Evidence(
            f"{loader.prefetch_factor or PREFETCH} batches ahead per worker; "
            f"the machine has {cores_of(subject)} cores"
        ),
    )


def _read(subject: Subject) -> tuple[Evidence, ...]:
    reading_ms = sum(read.took_us for read in subject.script.timed_reads) / 1e3
    return (
        Evidence(f"one process reads the batches of an iteration in {format_ms(reading_ms)}, measured here"),
    )


RULE = SlowWorkers()
