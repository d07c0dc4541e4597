"""What a verification found, ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval
from skyline.ledger.entry import LedgerEntry, VerificationStatus
from skyline.verification.measure import Measured
from skyline.verification.verdict import Verdict
from skyline.whatif.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Verification:
    """A prediction, the measurement of it, and the entry in the ledger that has both.

    ``samples`` is how many times the samples of an iteration the change takes. ``ledger_path`` is
    where the entry is kept, empty where it is not, and ``ledger_problem`` why that failed; ``notes`` is what else the
    person should know.
    """

    entry: LedgerEntry
    estimate: Estimate
    verdict: Verdict
    measured: Measured
    diff: str
    samples: float = 1.0
    notes: tuple[str, ...] = ()
    ledger_path: str = ""
    ledger_problem: str = ""

    @property
    def valid(self) -> bool:
        """Whether the measurement counts."""
        return self.entry.status is VerificationStatus.MEASURED

    @property
    def iteration_ms(self) -> Interval:
        """The measured ratio on the profile's own iteration time, where the prediction starts from, too."""
        return self.verdict.ratio.scaled(self.entry.predicted.baseline_ms)

    @property
    def speedup(self) -> Interval:
        """Samples per second over those of the script as it stands, as measured."""
        return self.verdict.ratio.inverse(self.samples)
