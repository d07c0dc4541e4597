"""A measurement of a busy machine does not replace one of the same code that was made in quiet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.basis import headline
from skyline.report.build import profile_report
from skyline.trace import store
from skyline.trace.facts import MachineLoad
from skyline.trace.profile import Profile
from skyline.trace.quieter_run import keep, shown

QUIET = MachineLoad(own_cores=1.0, others_cores=0.2, cores=2)
BUSY = MachineLoad(own_cores=0.4, others_cores=1.5, cores=2)


def again(profile: Profile, factor: float, load: MachineLoad | None, **changes: object) -> Profile:
    """Measured again, so many times as slow."""
    steps = tuple(factor * ms for ms in profile.times.steps_ms)
    times = replace(profile.times, steps_ms=steps)
    return replace(profile, id=f"again{factor:g}", times=times, load=load, **changes)


@pytest.fixture
def first(profile: Profile, tmp_path: Path) -> Profile:
    script = tmp_path / "train.py"
    quiet = replace(profile, id="first", script=str(script), load=QUIET)
    store.save(quiet)
    return quiet


@pytest.mark.parametrize(
    ("own", "others", "cores", "busy"),
    [
        (2.0, 0.3, 2, False),
        (1.0, 1.0, 2, True),
        (0.1, 1.9, 2, True),
        (8.0, 20.0, 64, False),
        (60.0, 4.0, 64, True),
    ],
)
def test_the_machine_is_busy_where_others_take_what_the_script_would_use(
    own: float, others: float, cores: int, busy: bool
) -> None:
    assert MachineLoad(own, others, cores).busy is busy


def test_the_quiet_measurement_stays_the_answer(first: Profile) -> None:
    noisy = again(first, 98.0, BUSY)
    kept = keep(noisy)
    assert kept.id == "first"
    assert kept.times == first.times
    assert "other programs used 1.5 of 2 cores" in kept.notes[-1]
    assert "skyline profile --replace" in kept.notes[-1]
    latest = store.latest(Path(first.script))
    assert latest is not None
    assert store.load(latest).id == "first"
    assert len(store.saved(Path(first.script))) == 2, "the other is kept beside it"
    assert "machine busy: an earlier measurement is shown" in headline(profile_report(analyse(kept)))


def test_the_later_measurement_can_be_shown_all_the_same(first: Profile) -> None:
    script = Path(first.script)
    assert store.put_forward(script) is None, "nothing was put aside"
    keep(again(first, 98.0, BUSY))
    earlier = shown(script)
    assert earlier is not None
    assert (earlier.id, earlier.set_aside) == ("first", True)
    assert store.put_forward(script) is not None
    later = shown(script)
    assert later is not None
    assert (later.id, later.set_aside) == ("again98", False)
    assert store.put_forward(script) is None


def test_a_busy_machine_is_told_in_the_headline_and_the_notes(first: Profile) -> None:
    analysis = analyse(again(first, 1.0, BUSY))
    assert headline(profile_report(analysis)).endswith(" · machine busy")
    assert any("other programs used 1.5 of 2 cores" in note for note in analysis.notes)
    assert "busy" not in headline(profile_report(analyse(first)))


def other_code(profile: Profile) -> dict[str, object]:
    return {"sources": tuple(replace(one, text=one.text + "x = 1\n") for one in profile.sources)}


def test_the_new_one_is_shown_where_nothing_speaks_against_it(first: Profile) -> None:
    for number, candidate in enumerate(
        (
            again(first, 1.05, BUSY),
            again(first, 98.0, QUIET),
            again(first, 98.0, None),
            again(first, 98.0, BUSY, arguments=("--large",)),
            again(first, 98.0, BUSY, **other_code(first)),
        )
    ):
        named = replace(candidate, id=f"new{number}")
        store.save(first)
        assert keep(named).id == named.id


def test_of_two_busy_measurements_the_quieter_one_stays(first: Profile) -> None:
    some = MachineLoad(own_cores=1.3, others_cores=0.6, cores=2)
    busy = replace(first, id="busy", load=some, created="2026-11-23T10:00:01+00:00")
    store.save(busy)
    script = Path(first.script)
    kept = keep(again(busy, 40.0, BUSY))
    assert kept.id == "busy"
    # The other way round, the quieter one replaces it.
    store.save(replace(first, id="busier", load=BUSY, created="2026-11-23T10:00:02+00:00"))
    assert keep(again(first, 40.0, some)).id == "again40"
    assert shown(script) is not None
