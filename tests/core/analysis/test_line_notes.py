from __future__ import annotations

from dataclasses import replace

from skyline.analysis.analyse import analyse
from skyline.trace.record import RecordKind


def test_a_line_that_runs_now_and_then_is_said(profile):
    def only_once(record):
        # The print of 1 ms happens in the first of three iterations; elsewhere its time is the loop's.
        return replace(record, line=0) if record.line == 3 and record.iteration else record

    trace = replace(profile.trace, records=tuple(map(only_once, profile.trace.records)))
    analysis = analyse(replace(profile, trace=trace))
    printing = next(row for row in analysis.lines if row.line == 8)
    assert printing.frequency == 1 / 3
    assert any(
        "train.py:8 ran in 1 of 3 recorded iterations, 1 ms at most" in note for note in analysis.notes
    )


def test_lines_that_always_run_are_not(profile):
    assert not any("recorded iterations" in note for note in analyse(profile).notes)


def test_waiting_for_workers_is_explained_where_it_costs(profile):
    workers = replace(profile, loaders=(replace(profile.loaders[0], num_workers=2),))
    assert any("2 worker processes" in note for note in analyse(workers).notes)
    quick = tuple(
        replace(record, duration_us=record.duration_us / 1000) if record.kind is RecordKind.DATA else record
        for record in profile.trace.records
    )
    times = replace(profile.times, data_ms=tuple(ms / 1000 for ms in profile.times.data_ms))
    calm = replace(workers, trace=replace(profile.trace, records=quick), times=times)
    assert not any("worker" in note for note in analyse(calm).notes)
