"""The result of a search for other programs, and in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.tune.trials import WORTH, TuneTrial

if TYPE_CHECKING:
    # The class imports the capture, which readers of saved results do not need.
    from skyline.tune.search import Tuned

TUNE_SCHEMA = "skyline.tune/1"
_EFFECTS = {
    "exact": "Training computes the same numbers, up to the order of sums.",
    "numerics": "Rounding differs.",
    "convergence": "Training converges differently: compare the loss before you keep the change.",
    "model": "Another model is trained: compare its results before you keep the change.",
}


@dataclass(frozen=True, slots=True)
class TuneReport:
    """The whole search.

    ``best`` is the leading trial, ``verified`` its second trial. ``outcome`` is ``faster`` (verified,
    offered), ``unverified``, ``nothing`` (no gain above 2 %) or ``unmeasured``. ``command`` makes the change.
    ``suggested`` are the changes that the simulation alone would choose.
    """

    schema: str
    script: str
    allowed: str
    outcome: str
    budget_s: float
    spent_s: float
    trial_s: float
    ended: str
    trials: tuple[TuneTrial, ...]
    best: TuneTrial | None
    verified: TuneTrial | None
    semantics: str
    command: str
    diff: str
    suggested: tuple[str, ...]
    suggested_speedup: Interval | None
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """A search in progress, or the trials of the last one (``skyline/tuning``, ``skyline/tuned``).

    ``best`` is the index of the leading trial in ``trials``, null without one. ``doing`` is the current step
    in words. ``budget_s`` is 0 for a search that has ended.
    """

    uri: str
    running: bool
    doing: str
    budget_s: float
    spent_s: float
    trials: tuple[TuneTrial, ...]
    best: int | None


def tune_progress(
    uri: str,
    trials: Sequence[TuneTrial],
    best: TuneTrial | None,
    *,
    running: bool = False,
    doing: str = "",
    budget_s: float = 0.0,
    spent_s: float = 0.0,
) -> TuneProgress:
    """The state of a search after these trials."""
    place = next((number for number, one in enumerate(trials) if one is best), None)
    return TuneProgress(uri, running, doing, budget_s, spent_s, tuple(trials), place)


def tune_report(
    script: str,
    allowed: str,
    budget_s: float,
    found: Tuned,
    *,
    left_out: tuple[str, ...],
    diff: str = "",
    notes: tuple[str, ...] = (),
) -> TuneReport:
    """A search as ``skyline.tune/1``."""
    best = found.best
    offered = outcome(found) in {"faster", "unverified"}
    changes = best.changes if offered and best is not None else ()
    simulated = found.simulated
    return TuneReport(
        schema=TUNE_SCHEMA,
        script=script,
        allowed=allowed,
        outcome=outcome(found),
        budget_s=budget_s,
        spent_s=found.spent_s,
        trial_s=found.trial_s,
        ended=found.ended,
        trials=found.trials,
        best=best,
        verified=found.verified,
        semantics=_gravest(changes),
        command=" ".join(["skyline apply", shlex.quote(script), *changes]) if changes else "",
        diff=diff,
        suggested=() if simulated is None else tuple(sorted(map(str, simulated.parts))),
        suggested_speedup=None if simulated is None else simulated.speedup,
        left_out=left_out,
        notes=notes,
    )


def outcome(found: Tuned) -> str:
    """The outcome of a search in one word."""
    if found.worth:
        return "faster"
    best = found.best
    if best is None or best.speedup is None:
        return "unmeasured"
    uncertain = found.verified is None or (found.verified.reason and not found.verified.dropped)
    return "unverified" if uncertain and best.speedup.value >= WORTH else "nothing"


def sentences(report: TuneReport) -> tuple[str, ...]:
    """The outcome, and the next step."""
    best, verified = report.best, report.verified
    if report.outcome == "faster" and verified is not None and verified.speedup is not None:
        effect = _EFFECTS[report.semantics]
        return (f"{_gain(verified)}, measured against the unchanged script. {effect}",)
    if report.outcome == "unverified" and best is not None:
        why = report.ended if verified is None else f"the verification is uncertain: {verified.reason}"
        again = f"Continue with: skyline tune {shlex.quote(report.script)} --resume"
        return (f"Best so far: {_gain(best)}, not verified ({why}).", again)
    if report.outcome == "unmeasured":
        return _unmeasured(report)
    nothing = f"No change here gains more than {100 * (WORTH - 1):.0f} %."
    if best is None or best.speedup is None or best.speedup.value < WORTH or verified is None:
        return (nothing,)
    said = "failed" if verified.speedup is None else f"gave {units.format_ratio_range(verified.speedup)}"
    return (f"{nothing} The best trial, {_gain(best)}, was not confirmed: the verification {said}.",)


def trial_words(trial: TuneTrial, number: int) -> str:
    """A finished trial in one line."""
    changes, took = " ".join(trial.changes), f"in {trial.took_s:.0f} s"
    if trial.speedup is None:
        return f"trial {number}: {changes}: dropped: {trial.reason}"
    told = f"{units.format_ratio_range(trial.speedup)}, predicted {units.format_ratio_range(trial.predicted)}"
    return f"trial {number}: {changes}: {told}, {took}" + (f"; {trial.reason}" if trial.reason else "")


def basis(report: TuneReport) -> str:
    """The measurements behind the outcome, in one line."""
    dropped = sum(one.dropped for one in report.trials)
    return (
        f"{units.plural(len(report.trials), 'trial')}, measured alternately with the unchanged script, "
        f"{dropped} dropped; {report.spent_s:.0f} s of {report.budget_s:.0f} s; the search ended: {report.ended}"
    )


def _unmeasured(report: TuneReport) -> tuple[str, ...]:
    failed = [one for one in report.trials if one.dropped]
    if failed:
        first = f"No trial succeeded: {report.ended}."
    elif report.ended.startswith("the budget"):
        first = (
            f"Nothing was measured: {report.budget_s - report.spent_s:.0f} s were left for trials, and one takes about "
            f"{report.trial_s:.0f} s here. A budget of {_enough_s(report):.0f} s allows some."
        )
    elif not report.suggested:
        return ("There is nothing to try: no change that Skyline can write is expected to gain.",)
    else:
        first = f"Nothing was measured: {report.ended}."
    if not report.suggested or report.suggested_speedup is None or failed:
        return (first,)
    changes, speedup = " ".join(report.suggested), units.format_ratio_range(report.suggested_speedup)
    suggested = f"The simulation alone suggests {changes}: {speedup}."
    return (first, f"{suggested} Measure it with: skyline verify {shlex.quote(report.script)} {changes}")


def _enough_s(report: TuneReport) -> float:
    """The seconds needed for the time spent without a trial, six trials and a verification, rounded up."""
    return 30.0 * (1 + (report.spent_s + 6 * report.trial_s) // 30)


def _gain(trial: TuneTrial) -> str:
    assert trial.speedup is not None
    return f"{units.format_ratio_range(trial.speedup)} samples per second with {' '.join(trial.changes)}"


def _gravest(changes: tuple[str, ...]) -> str:
    # These import the graph and NumPy, which readers of results do not need.
    from skyline.whatif.base import Semantics
    from skyline.whatif.registry import whatifs

    order, known = list(Semantics), whatifs()
    found = [known[name].semantics for one in changes if (name := one.partition("=")[0]) in known]
    return max(found, key=order.index, default=Semantics.EXACT).value
