"""The result of a verification."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval
from skyline.ledger.entry import LedgerEntry, VerificationStatus
from skyline.verification.measure import Measured
from skyline.verification.verdict import Verdict
from skyline.whatif.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Verification:
    """A prediction, its measurement, and the ledger entry with both.

    ``samples`` is the factor by which the change multiplies the samples per iteration. ``ledger_path`` is the file with
    the entry, empty if it is not stored; ``ledger_problem`` is the reason if storing failed. ``notes`` are further
    remarks for the user.
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
        """True if the measurement is valid."""
        return self.entry.status is VerificationStatus.MEASURED

    @property
    def iteration_ms(self) -> Interval:
        """The measured ratio times the profile's iteration time, which is also the base of the prediction."""
        return self.verdict.ratio.scaled(self.entry.predicted.baseline_ms)

    @property
    def speedup(self) -> Interval:
        """Measured samples per second relative to the unchanged script."""
        return self.verdict.ratio.inverse(self.samples)
