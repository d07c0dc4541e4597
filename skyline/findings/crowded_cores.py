"""SKY205: more threads and processes compute than there are cores."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.units import plural
from skyline.whatif.cost.loader_model import cores_of, inferred_load_us
from skyline.whatif.loader_setting import training_loader
from skyline.whatif.subject import Subject

_SHARE = 0.02
_WORKERS_PER_CORE = 2.0
"""Threshold of SageMaker Debugger's Dataloader: 200 % workers per core (``smdebug_rulesconfig``, ``rules.py``)."""


@dataclass(frozen=True, slots=True)
class CrowdedCores:
    """The threads of an operator and the loader's workers together outnumber the cores and slow each other down."""

    code: str = "SKY205"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the DataLoader's construction if it has workers; the cost is the saving with fewer threads."""
        if not subject.has_run:
            return None
        loader = training_loader(subject)
        workers = loader.num_workers if loader is not None else 0
        cores, threads = cores_of(subject), subject.script.environment.intraop_threads
        # Idle workers use no core, so only workers that the script waits for count.
        busy = workers if workers and inferred_load_us(subject) is not None else 0
        split_too_far, too_many = threads > cores, workers > _WORKERS_PER_CORE * cores
        if not (split_too_far or too_many or (busy and threads + busy > cores and not subject.on_gpu)):
            return None
        cost_ms = 0.0 if subject.on_gpu else saved_ms(subject, "cpu_threads")
        there = plural(cores, "core")
        if split_too_far:
            title = f"operators are split over {threads} threads, and there are {there}"
        elif too_many:
            title = f"{workers} loader workers share {there} with the training"
        elif cost_ms > _SHARE * step_ms(subject):
            title = f"{plural(threads, 'thread')} and {plural(busy, 'busy loader worker')} share {there}"
        else:
            return None
        place = loader.created_line if loader is not None and not split_too_far else None
        return Finding.at(
            self.code,
            title,
            place,
            cost_ms,
            "cpu_threads" if cost_ms > 0 else None,
            (
                Evidence(
                    f"torch.get_num_threads() is {threads}; the DataLoader has {plural(workers, 'worker')}; "
                    f"the process may use {there}"
                ),
            ),
        )


RULE = CrowdedCores()
