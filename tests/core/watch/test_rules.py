"""Each rule on streams that show its problem and on streams that do not."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skyline.watch.course import Course
from skyline.watch.registry import known_rules

_spec = importlib.util.spec_from_file_location("watch_cases", Path(__file__).with_name("cases.py"))
assert _spec is not None
assert _spec.loader is not None
cases = sys.modules["watch_cases"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
SHOWS, SHOWS_NOT, Stream, streams = cases.SHOWS, cases.SHOWS_NOT, cases.Stream, cases.streams


def test_every_rule_of_the_catalogue_has_both() -> None:
    ours = {name for name, kind in known_rules().classes.items() if kind.__module__.startswith("skyline.")}
    assert set(SHOWS) == set(SHOWS_NOT) == ours


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, all_ in SHOWS.items() for n in range(len(all_))]
)
def test_a_problem_is_reported_with_evidence_and_a_line(name: str, number: int) -> None:
    alert = SHOWS[name][number].first_alert(name)
    assert alert is not None
    assert alert.title
    assert alert.place is not None
    assert alert.place.file == streams.SCRIPT
    assert alert.evidence or name in {"exploding_gradients", "loss_not_finite"}


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, all_ in SHOWS_NOT.items() for n in range(len(all_))]
)
def test_a_run_without_the_problem_is_silent(name: str, number: int) -> None:
    assert SHOWS_NOT[name][number].first_alert(name) is None


@pytest.mark.parametrize("name", SHOWS)
def test_streams_of_other_problems_are_silent_where_they_lack_the_facts(name: str) -> None:
    assert Stream().first_alert(name) is None


def test_thresholds_decide() -> None:
    stalled = streams.windows(12, wait_s=0.2)
    kind = known_rules().classes["loader_stalls"]
    assert kind(share=0.5).check(streams.course_of(*stalled)) is None  # type: ignore[call-arg]
    assert kind(share=0.1).check(streams.course_of(*stalled)) is not None  # type: ignore[call-arg]


def test_places_are_those_of_the_cause() -> None:
    def line(name: str, number: int) -> int:
        alert = SHOWS[name][number].first_alert(name)
        assert alert is not None
        assert alert.place is not None
        return alert.place.line

    assert line("loader_stalls", 0) == streams.SITES["loader"]
    assert line("straggler", 1) == streams.SITES["loader"]
    assert line("overfitting", 0) == streams.SITES["validation"]
    assert line("checkpoint_stalls", 0) == streams.SITES["save"]
    # The line on which the layer was made.
    assert line("vanishing_gradients", 0) == 20
    assert line("dead_units", 0) == 22


def test_a_machine_busy_with_other_programs_is_a_note() -> None:
    rule = known_rules().classes["throughput_falls"]()
    note = cases.OTHERS_LOAD.note_of(rule)
    assert note is not None
    assert note.title == "other programs take 80 % of the machine"
    longer, without = note.evidence
    assert longer.endswith("more than before")
    assert without.startswith("without the time that other programs took: ")
    assert not any(stream.note_of(rule) for stream in SHOWS["throughput_falls"])


@pytest.mark.parametrize("unknown", [{"delayed_s": None}, {"loads": ()}])
def test_without_a_fact_about_other_programs_a_slowdown_is_an_alert(unknown: dict[str, Any]) -> None:
    fields = {key: value for key, value in unknown.items() if key != "loads"}
    records = tuple(
        msgspec.structs.replace(one, **fields) if fields else one for one in cases.OTHERS_LOAD.records
    )
    loads = unknown.get("loads", cases.OTHERS_LOAD.loads)
    alert = replace(cases.OTHERS_LOAD, records=records, loads=loads).first_alert("throughput_falls")
    assert alert is not None
    named = "other programs take 80 % of the machine" in alert.evidence
    assert named == bool(loads)


def test_a_rank_that_waits_for_a_delayed_one_is_not_slower_itself() -> None:
    others = cases.OTHERS_LOAD
    own = tuple(msgspec.structs.replace(one, delayed_s=0.0) for one in others.records)
    waiting = replace(others, records=own)
    assert waiting.first_alert("throughput_falls") is not None
    assert replace(waiting, peers=(others.records,)).first_alert("throughput_falls") is None


def test_an_empty_course_has_no_rank_of_its_own() -> None:
    assert Course().rank == 0
