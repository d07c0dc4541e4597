"""The outcome of a budget check for other programs, for a pull request, and for a CI server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

if TYPE_CHECKING:
    # The class imports the capture, which readers of saved results do not need.
    from skyline.verification.budget_check import BudgetCheck

CHECK_SCHEMA = "skyline.check/1"
_SUITE = "skyline check"
NAMES = {
    "slower": "slower than the base",
    "iteration_ms": "iteration time",
    "samples_per_s": "throughput",
    "peak_mb": "peak memory",
}
"""The names of the limits, by the key of the budget."""
_MARKS = {"within": "✅", "over": "❌", "inconclusive": "❔"}


@dataclass(frozen=True, slots=True)
class LimitReport:
    """One limit; ``limit`` and ``measured`` have the unit of the key ``name``, a share for ``slower``."""

    name: str
    limit: float
    measured: Interval
    outcome: str

    @property
    def limit_words(self) -> str:
        """The limit with its unit."""
        return _value(self.name, self.limit)

    @property
    def measured_words(self) -> str:
        """The measured value with its range and unit."""
        low, high = self.measured.low, self.measured.high
        if high == float("inf") and not self.measured.value:
            return "not measured"
        value = _value(self.name, self.measured.value)
        if high == float("inf"):
            return f"{value} (too few starts for a range)"
        return value if low == high else f"{value} ({_value(self.name, low)} to {_value(self.name, high)})"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The whole outcome; ``base`` is the base revision and its commit, empty without one.

    ``ratio`` is the iteration time divided by the base's, ``null`` is a script compared with itself in the
    same rounds. ``scatter`` is the standard deviation of the ratio of one start, as a share. None for a
    single start.
    """

    schema: str
    script: str
    base: str
    outcome: str
    limits: tuple[LimitReport, ...]
    ratio: Interval
    null: Interval
    rounds: int
    starts: int
    scatter: float | None
    device: str
    notes: tuple[str, ...]


def check_report(script: str, base: str, found: BudgetCheck, notes: tuple[str, ...] = ()) -> CheckReport:
    """A check as ``skyline.check/1``."""
    limits = tuple(LimitReport(one.name, one.limit, one.measured, one.outcome.value) for one in found.limits)
    return CheckReport(
        CHECK_SCHEMA,
        script,
        base,
        found.outcome.value,
        limits,
        found.ratio,
        found.null,
        found.rounds,
        found.starts,
        found.scatter,
        found.device,
        (*notes, *found.notes),
    )


def sentence(report: CheckReport) -> str:
    """The outcome in one sentence."""
    over = [NAMES[one.name] for one in report.limits if one.outcome == "over"]
    open_ = [NAMES[one.name] for one in report.limits if one.outcome == "inconclusive"]
    if over:
        return f"Over budget: {', '.join(over)}."
    if open_:
        return f"Inconclusive: {', '.join(open_)}. The starts differ too much to decide in this time."
    return "Within budget."


def basis(report: CheckReport) -> str:
    """The measurement behind the outcome, in one line."""
    starts = "1 start" if report.starts == 1 else f"{report.starts} starts"
    measured = f"{report.rounds} rounds in {starts} of both scripts on {report.device}"
    null = report.null
    against = f"against {report.base}" if report.base else "against itself"
    scatter = (
        "" if report.scatter is None else f" Starts differ by {report.scatter:.1%} (standard deviation)."
    )
    return (
        f"Measured {against}, alternately: {measured}.{scatter} One process against itself: {null.value:.3f} "
        f"({null.low:.3f} to {null.high:.3f})."
    )


def markdown(report: CheckReport) -> str:
    """The outcome for the description of a pull request, or a job's summary."""
    lines = [
        f"### Skyline: {sentence(report)}",
        "",
        f"`{report.script}`",
        "",
        "| limit | allowed | measured | |",
        "|---|---|---|---|",
        *(
            f"| {NAMES[one.name]} | {one.limit_words} | {one.measured_words} | {_MARKS[one.outcome]} {one.outcome} |"
            for one in report.limits
        ),
        "",
        basis(report),
        *(f"- {note}" for note in report.notes),
    ]
    return "\n".join(lines) + "\n"


def junit(report: CheckReport) -> bytes:
    """The outcome as JUnit XML, with one test per limit; an inconclusive test is skipped."""
    counts = {name: sum(one.outcome == name for one in report.limits) for name in _MARKS}
    suite = ElementTree.Element(
        "testsuite",
        name=_SUITE,
        tests=str(len(report.limits)),
        failures=str(counts["over"]),
        skipped=str(counts["inconclusive"]),
    )
    for one in report.limits:
        case = ElementTree.SubElement(suite, "testcase", classname=report.script, name=NAMES[one.name])
        words = f"{one.measured_words}, allowed {one.limit_words}"
        if one.outcome == "over":
            ElementTree.SubElement(case, "failure", message=words).text = basis(report)
        elif one.outcome == "inconclusive":
            ElementTree.SubElement(case, "skipped", message=words)
        else:
            ElementTree.SubElement(case, "system-out").text = words
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n"


def _value(name: str, value: float) -> str:
    if name == "slower":
        return f"{value:+.1%}"
    if name == "iteration_ms":
        return units.format_ms(value)
    if name == "samples_per_s":
        return units.format_throughput(value)
    return units.format_bytes(value * 1e6)
