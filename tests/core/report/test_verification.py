"""Verifications and the ledger as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from skyline.analysis.analyse import analyse
from skyline.interval import Interval
from skyline.ledger.ledger import Conditions, LedgerEntry, Measurement, Predicted, VerificationStatus
from skyline.ledger.record import Correction, TrackRecord
from skyline.report.build import whatif_report, with_ledger
from skyline.report.document import Document
from skyline.report.pages.verification import ledger_page, verification_page
from skyline.report.pages.whatifs import whatifs_page
from skyline.report.schema import VERIFY_SCHEMA, MeasuredReport, VerifyReport, WhatIfReport
from skyline.report.terminal import print_document
from skyline.trace.profile import Profile
from skyline.whatif.question import Choice, Question


def shown(page: Callable[..., Document], *arguments: object, **options: object) -> str:
    out = StringIO()
    print_document(page(*arguments, **options), Console(file=out, width=140, highlight=False))
    return out.getvalue()


@pytest.fixture
def report(whatif_report: WhatIfReport) -> VerifyReport:
    measured = MeasuredReport(
        iteration_ms=Interval(170.0, 168.0, 172.0),
        ratio=Interval(0.932, 0.921, 0.943),
        speedup=Interval(1.073, 1.06, 1.086),
        throughput=Interval(188.0, 186.0, 190.0),
        null=Interval(1.004, 0.99, 1.02),
        rounds=8,
        baseline_ms=190.0,
        others_cores=0.2,
        baseline_peak_bytes=1_900_000_000,
        peak_bytes=2_000_000_000,
    )
    return VerifyReport(
        schema=VERIFY_SCHEMA,
        script="/project/train.py",
        whatifs=("num_workers=2",),
        baseline=whatif_report.baseline,
        predicted=whatif_report.estimates[0],
        measured=measured,
        error=163.4 / 170 - 1,
        held=False,
        null_ratio=1.004,
        valid=True,
        reason=None,
        hint=None,
        entry="3f2a90c1",
    )


def test_predicted_stands_beside_measured(report: VerifyReport) -> None:
    text = shown(verification_page, report, ledger="/data/ledger.sqlite3")
    assert "train.py: num_workers=2" in text
    assert "outside the predicted interval   predicted 3.9 % too short" in text
    (iteration,) = [line for line in text.splitlines() if line.startswith(" iteration")]
    assert "163.4 ms ±4.0" in iteration
    assert "170.0 ms ±2.0" in iteration
    assert "0.932 (0.921 to 0.943)" in text
    assert "2.0 GB (+100 MB)" in text
    assert "1.004 (0.990 to 1.020) in 8 rounds" in text
    assert "182.4 ms in its profile, 190.0 ms this time" in text
    assert "3f2a90c1 (/data/ledger.sqlite3)" in text


def test_a_discarded_one_says_so_first_and_claims_nothing(report: VerifyReport) -> None:
    noisy = replace(report, valid=False, reason="noisy: it was loud", hint="Close other programs.")
    text = shown(verification_page, noisy)
    assert "discarded: noisy: it was loud" in text
    assert "Close other programs." in text
    assert "predicted interval" not in text


def test_two_scripts_have_no_predicted_column(report: VerifyReport) -> None:
    compared = replace(
        report,
        whatifs=(),
        baseline=None,
        predicted=None,
        error=None,
        held=None,
        entry=None,
        against="/p/mine.py",
    )
    text = shown(verification_page, compared)
    assert "mine.py against train.py" in text
    assert "predicted" not in text
    assert "0.932" in text
    same = replace(compared, measured=replace(report.measured, ratio=Interval(1.0, 0.99, 1.01)))
    assert "no difference that exceeds the noise" in shown(verification_page, same)


def entry(
    profile: Profile, number: int, ratio: float, status: VerificationStatus = VerificationStatus.MEASURED
) -> LedgerEntry:
    return LedgerEntry(
        id=f"id{number}",
        created="2026-01-02T03:04:05+00:00",
        changed="2026-01-02T03:05:05+00:00",
        status=status,
        script="/project/train.py",
        sources_digest="d",
        whatif="fused_optimizer",
        question="fused_optimizer",
        profile_id="a1",
        skyline="0.1.0",
        machine=Conditions.of(profile),
        predicted=Predicted(10.0, 9.0, 8.5, 9.5, 1.1, 1e6, 1e6, "exact", False, "d"),
        measurement=Measurement(ratio, ratio, ratio, 1.0, 1.0, 1.0, 8, 10.0, 0.1),
        error=0.9 / ratio - 1,
        held=abs(ratio - 0.9) <= 0.05,
        reason="" if status is VerificationStatus.MEASURED else "noisy: it was loud",
    )


def test_the_ledger_stands_under_an_answer_and_changes_no_number(profile: Profile) -> None:
    analysis = analyse(profile)
    question = Question(choices=(Choice("fused_optimizer"), Choice("num_workers", "1")))
    answer = whatif_report(analysis, question)
    entries = [entry(profile, number, 0.99) for number in range(4)]

    with_records = with_ledger(answer, analysis, entries)

    assert with_ledger(answer, analysis, ()) == answer
    assert with_records.estimates == answer.estimates
    (record,) = with_records.ledger
    assert (record.whatif, record.cases, record.held) == ("fused_optimizer", 4, 0)
    text = shown(whatifs_page, with_records)
    assert "your ledger, fused_optimizer: median error -9.1 %" in text
    # A tenth more than predicted, of which four cases are believed two thirds.
    assert record.correction is not None
    corrected = answer.estimates[0].iteration_ms.value * 1.1 ** (4 / 6)
    assert f"corrected by your ledger: {corrected:.2f} ms" in text
    assert "ledger" not in shown(whatifs_page, answer)


def test_a_combination_has_a_record_of_its_own(profile: Profile) -> None:
    analysis = analyse(profile)
    question = Question(batch_size=32, choices=(Choice("fused_optimizer"),))
    together = replace(entry(profile, 1, 0.9), whatif="batch_size+fused_optimizer")
    answer = with_ledger(whatif_report(analysis, question), analysis, [together])
    assert [record.whatif for record in answer.ledger] == ["batch_size+fused_optimizer"]


def test_entries_records_and_reasons_are_listed(profile: Profile) -> None:
    entries = [entry(profile, 1, 0.9), entry(profile, 2, 0.7, VerificationStatus.DISCARDED)]
    record = TrackRecord("fused_optimizer", 5, 2, 0.031, 0.05, 4, 3, 1, Correction(1.0, 0.9, 1.1))
    text = shown(ledger_page, entries, [record])
    counted, discarded = (line for line in text.splitlines() if "2026" in line)
    assert "+0.0 %" in counted or "0.0 %" in counted
    assert "held" in counted
    assert "0.700" in discarded
    assert "missed" not in discarded
    assert "id2: discarded: noisy: it was loud" in text
    assert (
        "median error +3.1 %, ±5.0 % in 4 of 5 cases; the interval contained 3; 2 scripts; 1 discarded"
        in text
    )
    assert "nothing was verified yet" in shown(ledger_page, [], [])
