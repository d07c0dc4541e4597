"""Measures candidates for a search: each trial is a verification that the ledger stores."""

from __future__ import annotations

import threading
from statistics import median

from skyline.analysis.analyse import Analysis
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.errors import CaptureImpossible, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import Ledger
from skyline.trace.profile import Profile
from skyline.tune.search import Outcome
from skyline.tune.space import Candidate
from skyline.verification.change import check_unchanged
from skyline.verification.measure import Effort, Measuring, measure
from skyline.verification.verify import verify

_STARTS = 3
_START_S = 2.0
"""The time to fork a process that has imported PyTorch, and for the script's preparations; a first guess."""
_TURNS, _TURN_S, _LEAST_ITERATIONS = 21, 0.35, 3


@dataclass(frozen=True, slots=True)
class PairedTrials:
    """Measures candidates as ``skyline verify`` does; without ``keep`` the ledger stores nothing.

    ``measuring`` runs the two versions, in this process or on a worker.
    """

    analysis: Analysis
    request: CaptureRequest
    keep: bool = True
    ledger: Ledger | None = None
    cancel: threading.Event | None = None
    starter: Starter = start_fresh
    measuring: Measuring = measure

    def __call__(self, candidate: Candidate, effort: Effort, progress: ProgressCallback) -> Outcome:
        """The outcome of one verification."""
        try:
            check_unchanged(self.analysis, self.request)
        except UsageError as error:
            # This ends the search; a UsageError would only drop the candidate.
            raise CaptureImpossible(error.message, hint=error.hint) from error
        found = verify(
            self.analysis,
            candidate.question,
            request=self.request,
            effort=effort,
            ledger=self.ledger,
            keep=self.keep,
            progress=progress,
            cancel=self.cancel,
            starter=self.starter,
            measuring=self.measuring,
        )
        verdict, peak_bytes = found.verdict, found.measured.trial.peak_bytes
        return Outcome(found.speedup, verdict.null.value, peak_bytes, verdict.reason)


def first_guess_s(profile: Profile) -> float:
    """The first guess for a trial in s: three starts with their warm-up, and the turns of all rounds."""
    step_s = median(profile.times.steps_ms or (0.0,)) / 1e3
    starts_s = _STARTS * (_START_S + profile.warmup_iterations * step_s)
    return starts_s + _TURNS * max(_TURN_S, _LEAST_ITERATIONS * step_s)
