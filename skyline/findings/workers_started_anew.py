"""SKY103: every epoch starts the loader's workers again."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import step_ms
from skyline.lazy_dataclass import dataclass
from skyline.units import format_ms, plural
from skyline.whatif.loader_setting import iterations_per_epoch, start_ms, starts_afresh, training_loader
from skyline.whatif.subject import Subject

_SHARE = 0.05
"""Threshold as a share of an epoch, as for other waiting for data."""


@dataclass(frozen=True, slots=True)
class WorkersStartedAnew:
    """Starting the workers takes more than a twentieth of an epoch, and they stop at its end."""

    code: str = "SKY103"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the construction of the DataLoader; the cost is the share of a start per iteration."""
        if not subject.has_run:
            return None
        loader, many = training_loader(subject), iterations_per_epoch(subject, None)
        if loader is None or not loader.num_workers or loader.persistent_workers or many is None:
            return None
        environment = subject.script.environment
        each_ms = start_ms(subject.script, loader.num_workers)
        cost_ms = each_ms.value / many
        if cost_ms <= _SHARE * (step_ms(subject) + cost_ms):
            return None
        workers = plural(loader.num_workers, "loader worker")
        how = (
            "as fresh interpreters that import everything again" if starts_afresh(environment) else "by fork"
        )
        return Finding.at(
            self.code,
            f"{workers} start again in each epoch of {many:.0f} iterations: about {format_ms(each_ms.value)} each time",
            loader.created_line,
            cost_ms,
            "persistent_workers",
            (
                Evidence(
                    f"workers start {how}: {format_ms(each_ms.low)} to {format_ms(each_ms.high)}, measured on other "
                    "machines"
                ),
            ),
        )


RULE = WorkersStartedAnew()
