"""One entry of the ledger: a what-if, its prediction, and the measured outcome."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum

from skyline.trace.profile import Profile


class VerificationStatus(str, Enum):
    """The state of a verification.

    ``open``: predicted, not yet measured. ``measured``: valid. ``discarded``: measured, but too inaccurate to count.
    ``aborted``: not measured to the end.
    """

    OPEN = "open"
    MEASURED = "measured"
    DISCARDED = "discarded"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that must agree for two measurements to be comparable; ``torch`` is the version."""

    device: str
    cores: int
    threads: int
    platform: str
    torch: str
    python: str

    @classmethod
    def of(cls, profile: Profile) -> Conditions:
        """The machine of a profile."""
        environment = profile.environment
        return cls(
            environment.device.name,
            environment.cpu_count,
            environment.intraop_threads,
            environment.platform,
            environment.torch,
            environment.python,
        )

    def same_as(self, other: Conditions) -> bool:
        """True if both have the same processor or GPU, threads and PyTorch, so that prediction errors agree."""
        return self._key == other._key

    @property
    def _key(self) -> tuple[str, int, int, str, str]:
        return (self.device, self.cores, self.threads, self.platform, self.torch)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction as stored before the measurement; times in ms, ratios relative to the unchanged script."""

    baseline_ms: float
    iteration_ms: float
    low_ms: float
    high_ms: float
    speedup: float
    """Samples per second relative to the unchanged script."""
    baseline_peak_bytes: float
    peak_bytes: float
    semantics: str
    extrapolated: bool
    assumptions_digest: str
    provenance: str = "modelled"
    """Origin of the prediction."""

    @property
    def ratio(self) -> float:
        """The predicted iteration time with the change, relative to without."""
        return self.iteration_ms / self.baseline_ms


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement; ``low`` and ``high`` bound the median of the ratio at 95 %, likewise for the null."""

    ratio: float
    ratio_low: float
    ratio_high: float
    null_ratio: float
    null_low: float
    null_high: float
    rounds: int
    baseline_ms: float
    """Iteration time, in ms, of the unchanged script in this verification."""
    others_cores: float = 0.0
    """Average number of cores that other programs used during the measurement."""
    baseline_peak_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A verification. ``whatif`` is the name of the what-if without values; ``question`` includes them.

    ``held`` is true if the measured iteration time was within the predicted interval. ``error`` is the relative error
    of the predicted time (positive: too long, negative: too short). ``created`` and ``changed`` are ISO 8601 with the
    time zone.
    """

    id: str
    created: str
    changed: str
    status: VerificationStatus
    script: str
    sources_digest: str
    """Digest of all sources of the profile: equal digests mean equal programs."""
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
    """Reason why the entry was discarded or aborted."""

    @property
    def counts(self) -> bool:
        """True if statistics may use the entry."""
        return self.status is VerificationStatus.MEASURED and self.measurement is not None


def same_script(left: str, right: str) -> bool:
    """True if two paths refer to the same script, with links and relative paths resolved."""
    return os.path.realpath(left) == os.path.realpath(right)
