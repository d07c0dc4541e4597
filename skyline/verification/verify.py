"""A complete verification: predict, store the prediction, run both versions in turns, compare."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from skyline.analysis.analyse import Analysis
from skyline.analysis.estimate import estimate
from skyline.analysis.gpu_costs import samples_of
from skyline.capture.batch_way import showed
from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress, ProgressCallback
from skyline.errors import Cancelled, SkylineError, UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import (
    Conditions,
    Ledger,
    LedgerEntry,
    LedgerUnusable,
    Measurement,
    Predicted,
    VerificationStatus,
)
from skyline.trace.profile import Profile
from skyline.verification.change import change, check_unchanged
from skyline.verification.measure import Effort, Measured, Measuring, measure
from skyline.verification.verdict import Verdict, judge
from skyline.version import __version__
from skyline.whatif.question import Estimate, Question

_DEFAULT_EFFORT = Effort()


def verify(
    analysis: Analysis,
    question: Question,
    *,
    request: CaptureRequest | None = None,
    effort: Effort = _DEFAULT_EFFORT,
    ledger: Ledger | None = None,
    keep: bool = True,
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
    measuring: Measuring = measure,
) -> Verification:
    """Predict the question, run the script with and without its change in turns, and compare.

    The prediction is in the ledger before anything runs. The change is made in memory; no file of the user is modified.
    ``request`` defines how to run the script, by default as for the profile. ``ledger`` is the user's own by default;
    without ``keep`` nothing is stored. ``measuring`` runs both versions: in this process, or elsewhere.

    Raises:
        UsageError: the question does not apply here, or a source has changed since the profile.
        RewriteRefused: the change cannot be written.
        ScriptFailed, CaptureImpossible, BudgetExceeded, Cancelled: as ``profile`` does. The entry is then ``aborted``.
    """
    profile = analysis.profile
    check_measurable(profile)
    request = request or request_of(profile)
    check_unchanged(analysis, request)
    progress(Progress("predict", "predicting the change", 0.0))
    # The ledger's factors for ranges come from modelled ranges: those are stored.
    predicted = estimate(analysis.with_range_factors({}), question)
    if not predicted.applicable:
        raise UsageError(f"There is nothing to verify: {predicted.reason}")
    changed = change(analysis, question, request.arguments)
    kept = Kept((ledger or Ledger()) if keep else None, _opened(analysis, question, predicted))
    try:
        measured = measuring(
            request,
            changed.over(request),
            effort,
            words=kept.entry.question,
            progress=progress,
            cancel=cancel,
            starter=starter,
        )
        verdict = _with_other_objections(
            judge(measured.trial, profile.environment.cpu_count), analysis, predicted, measured
        )
    except BaseException as error:
        kept.put(replace(kept.entry, status=VerificationStatus.ABORTED, reason=_why(error)))
        raise
    kept.put(_closed(kept.entry, verdict, measured))
    return Verification(
        kept.entry,
        predicted,
        verdict,
        measured,
        changed.diff,
        _samples(profile, predicted),
        measured.notes,
        kept.path,
        kept.problem,
    )


def check_measurable(profile: Profile) -> None:
    """Raise UsageError if the profile is a prediction for an absent GPU."""
    if profile.mode != "measured":
        raise UsageError(
            "A prediction for a GPU that is not here cannot be verified here",
            hint="Profile the script on this machine, without --gpu.",
        )


def request_of(profile: Profile) -> CaptureRequest:
    """The request that the profile was made with, as far as the profile records it."""
    return CaptureRequest(
        script=Path(profile.script),
        arguments=profile.arguments,
        interpreter=profile.interpreter or None,
        working_directory=Path(profile.working_directory) if profile.working_directory else None,
        module=profile.module,
    )


def _opened(analysis: Analysis, question: Question, predicted: Estimate) -> LedgerEntry:
    profile, start = analysis.profile, analysis.baseline
    names = [choice.name for choice in question.choices]
    words = [str(choice) for choice in question.choices]
    if question.batch_size is not None:
        names.append("batch_size")
        words.insert(0, f"batch_size={question.batch_size}")
    if len(words) == 1 and predicted.value:
        # A value that Skyline chose is stored as chosen.
        words = [f"{predicted.name}={predicted.value}"]
    return LedgerEntry(
        id=secrets.token_hex(4),
        created=now(),
        changed="",
        status=VerificationStatus.OPEN,
        script=profile.script,
        sources_digest=_digest(*sorted(f"{each.path} {each.sha256}" for each in profile.sources)),
        whatif="+".join(sorted(names)),
        question=" ".join(words),
        profile_id=profile.id,
        skyline=__version__,
        machine=Conditions.of(profile),
        predicted=Predicted(
            baseline_ms=start.iteration_ms.value,
            iteration_ms=predicted.typical_ms.value,
            low_ms=predicted.typical_ms.low,
            high_ms=predicted.typical_ms.high,
            speedup=predicted.speedup,
            baseline_peak_bytes=float(start.peak.total),
            peak_bytes=predicted.peak.value,
            provenance=predicted.provenance,
            semantics=predicted.semantics,
            extrapolated=predicted.extrapolated,
            assumptions_digest=_digest(*predicted.assumptions),
        ),
    )


def _closed(entry: LedgerEntry, verdict: Verdict, measured: Measured) -> LedgerEntry:
    predicted, ratio = entry.predicted, verdict.ratio
    return replace(
        entry,
        status=VerificationStatus.MEASURED if verdict.valid else VerificationStatus.DISCARDED,
        reason=verdict.reason,
        measurement=Measurement(
            ratio=ratio.value,
            ratio_low=ratio.low,
            ratio_high=ratio.high,
            null_ratio=verdict.null.value,
            null_low=verdict.null.low,
            null_high=verdict.null.high,
            rounds=len(measured.trial.ratios),
            baseline_ms=measured.base_ms,
            others_cores=verdict.others_cores,
            baseline_peak_bytes=measured.base_peak_bytes,
            peak_bytes=measured.trial.peak_bytes,
        ),
        error=predicted.ratio / ratio.value - 1,
        held=predicted.low_ms <= ratio.value * predicted.baseline_ms <= predicted.high_ms,
    )


def _with_other_objections(
    verdict: Verdict, analysis: Analysis, predicted: Estimate, measured: Measured
) -> Verdict:
    """Add objections that do not depend on noise: the measurement may cover something other than the prediction."""
    profile = analysis.profile
    then, now = profile.environment, measured.base.facts.environment
    size, own = predicted.batch_size, profile.batch_size
    if (then.intraop_threads, then.torch) != (now.intraop_threads, now.torch):
        reason = (
            f"the profile was made with PyTorch {then.torch} and {then.intraop_threads} threads, this run with "
            f"{now.torch} and {now.intraop_threads}"
        )
        return replace(verdict, reason=reason, hint="Profile the script again: --fresh.")
    before, after = measured.base.facts, measured.changed.facts
    if size is not None and own is not None and size != own and not showed(own, size, before, after):
        reason = f"the run with the change showed no batch of {size}"
        return replace(verdict, reason=reason, hint="Something else in the script sets its batch size.")
    return verdict


def _samples(profile: Profile, predicted: Estimate) -> float:
    """The factor on the samples of an iteration: larger batches, and further runs in one process."""
    now = samples_of(profile)
    if not now or predicted.throughput is None:
        return 1.0
    return predicted.throughput.value * predicted.iteration_ms.value / 1e3 / now


def _why(error: BaseException) -> str:
    if isinstance(error, (KeyboardInterrupt, Cancelled)):
        return "interrupted"
    if isinstance(error, SkylineError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Kept:
    """An entry and its ledger (None: not stored); ``problem`` is the reason if storing failed."""

    def __init__(self, ledger: Ledger | None, entry: LedgerEntry) -> None:
        self._ledger = ledger
        self.problem = ""
        self.put(entry)

    @property
    def path(self) -> str:
        """The file with the entry; empty if it is not stored."""
        return "" if self._ledger is None or self.problem else str(self._ledger.path)

    def put(self, entry: LedgerEntry) -> None:
        """Store the current entry, with the time of the change."""
        self.entry = replace(entry, changed=now())
        if self._ledger is None or self.problem:
            return
        try:
            self._ledger.write(self.entry)
        except LedgerUnusable as error:
            self.problem = f"{error.message}. {error.hint}".strip()


def now() -> str:
    """The current time, ISO 8601 with the time zone."""
    return datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds")


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
