"""One line of the ledger: a question, what was predicted, and what came of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum


class VerificationStatus(str, Enum):
    """How far a verification came.

    ``open``: predicted, not measured yet. ``measured``: it counts. ``discarded``: it was measured, and the
    measurement says too little to count. ``aborted``: it was not measured to the end.
    """

    OPEN = "open"
    MEASURED = "measured"
    DISCARDED = "discarded"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What has to agree for two measurements to be about the same thing; ``torch`` is the version."""

    device: str
    cores: int
    threads: int
    platform: str
    torch: str
    python: str

    def same_as(self, other: Conditions) -> bool:
        """Whether a prediction errs in the same way on both: the same processor or GPU, threads and PyTorch."""
        return self._key == other._key

    @property
    def _key(self) -> tuple[str, int, int, str, str]:
        return (self.device, self.cores, self.threads, self.platform, self.torch)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was written down before anything ran; times in ms, ratios to the script as it stands."""

    baseline_ms: float
    iteration_ms: float
    low_ms: float
    high_ms: float
    speedup: float
    """Samples per second over those of the script as it stands."""
    baseline_peak_bytes: float
    peak_bytes: float
    semantics: str
    extrapolated: bool
    assumptions_digest: str
    provenance: str = "modelled"
    """Where the prediction came from; entries of earlier versions did not say, and count as modelled."""

    @property
    def ratio(self) -> float:
        """The iteration with the change over that without."""
        return self.iteration_ms / self.baseline_ms


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured; ``low`` and ``high`` bound the ratio's median at 95 %, and the null's likewise."""

    ratio: float
    ratio_low: float
    ratio_high: float
    null_ratio: float
    null_low: float
    null_high: float
    rounds: int
    baseline_ms: float
    """The script as it stands, as it ran this time."""
    others_cores: float = 0.0
    """Cores that other programs kept busy meanwhile."""
    baseline_peak_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A verification. ``whatif`` names what was asked without its values; ``question`` has them.

    ``held`` is whether the measured iteration time lay in the predicted interval, ``error`` by what share of it the
    prediction was too long (negative: too short). ``created`` and ``changed`` are ISO 8601 with the time zone.
    """

    id: str
    created: str
    changed: str
    status: VerificationStatus
    script: str
    sources_digest: str
    """Of every source of the profile: the same digest is the same program."""
    whatif: str
    question: str
    profile_id: str
    skyline: str
    machine: Conditions
    predicted: Predicted
    measurement: Measurement | None = None
    error: float | None = None
    held: bool | None = None
    reason: str = ""
    """Why it was discarded or aborted."""

    @property
    def counts(self) -> bool:
        """Whether something may be learnt from it."""
        return self.status is VerificationStatus.MEASURED and self.measurement is not None


def same_script(left: str, right: str) -> bool:
    """Whether two paths name one script, links and relative paths aside."""
    return os.path.realpath(left) == os.path.realpath(right)
