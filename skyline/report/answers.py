"""Answers about a profile or a trace as ``skyline.whatif/2``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skyline.analysis.estimate import answer, ranked
from skyline.analysis.verdict import verdict
from skyline.findings.bounds import busy_by_device
from skyline.report.schema import WHATIF_SCHEMA, BaselineReport, WhatIfReport
from skyline.whatif.base import throughput_at
from skyline.whatif.question import Choice

if TYPE_CHECKING:
    # Answers about a trace do without rewrites.
    from skyline.analysis.rewrites import Rewrites
    from skyline.findings.base import Finding
    from skyline.whatif.question import Estimate
    from skyline.whatif.subject import Subject


def answers_report(
    subject: Subject, choices: Sequence[Choice] | None = None, rewrites: Rewrites | None = None
) -> WhatIfReport:
    """The answers to some choices, one by one and combined; without choices, to all what-ifs, by gain."""
    now = subject.running_ms
    throughput = throughput_at(subject, subject.batch_size, now)
    busy = busy_by_device(subject) if subject.gpu_recorded else {}
    baseline = BaselineReport(
        now, throughput, subject.peak_bytes, subject.replay_error, busy, subject.critical_path
    )
    if choices is None:
        found = ranked(subject, rewrites)
        return WhatIfReport(WHATIF_SCHEMA, baseline, found, None, verdict=verdict(subject, found))
    singly = tuple(answer(subject, (choice,), rewrites) for choice in choices)
    combined = answer(subject, choices, rewrites) if len(choices) > 1 else None
    return WhatIfReport(WHATIF_SCHEMA, baseline, singly, combined)


def with_cure_that_helps(
    subject: Subject, finding: Finding, rewrites: Rewrites | None = None, known: Sequence[Estimate] = ()
) -> Finding:
    """The finding, without its what-if if that is not predicted to gain anything here: time, or else memory.

    ``known`` are answers at default values, which are reused.
    """
    if finding.whatif is None:
        return finding
    choice = Choice.parse(finding.whatif)
    given = (one for one in known if one.name == choice.name and not choice.value)
    found = next(given, None) or answer(subject, (choice,), rewrites)
    smaller = 0 < found.peak.value < subject.peak.total
    helps = found.speedup > 1 if finding.cost_ms > 0 else smaller
    return finding if found.applicable and helps else replace(finding, whatif=None)
