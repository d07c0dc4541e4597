"""Moving a bar: by mouse, by keys, by a typed number, and what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.schema import BatchSizeReport
from skyline.source.knob import SettingPlace
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.drag_bar import DragBar
from skyline_tui.widgets.workbench import Workbench

SIZE = (120, 40)


def throughput(batch_size: int) -> float:
    """Of the script that the session answers for, in samples per ms."""
    return batch_size / (30.0 + 4.75 * batch_size)


async def drag(pilot, bar: str, start: int, *stops: int) -> None:
    await pilot.mouse_down(bar, offset=(start, 0))
    for stop in stops:
        await pilot.hover(bar, offset=(stop, 0))
    await pilot.mouse_up(bar, offset=(stops[-1] if stops else start, 0))
    await pilot.pause()


async def test_a_drag_asks_on_the_way_and_writes_at_the_end(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = made.session.script.read_bytes()
        await pilot.mouse_down("#memory-bar", offset=(8, 0))
        await pilot.hover("#memory-bar", offset=(20, 0))
        await pilot.pause()
        assert made.session.questions, "the server is asked during the drag"
        assert made.session.script.read_bytes() == before, "and nothing is written before the release"
        memory, rate = (
            made.app.query_one("#memory-bar", DragBar),
            made.app.query_one("#throughput-bar", DragBar),
        )
        assert memory.then == pytest.approx(memory.fraction_at(20))
        assert rate.then is not None
        assert rate.now is not None
        asked = made.session.questions[-1].batchSize
        assert asked is not None
        best, least = throughput(192), throughput(8)
        place = (throughput(asked) - least) / (best - least)
        assert rate.then == pytest.approx(place), "the other bar moves too, to where that size is on it"
        assert rate.now < rate.then
        await pilot.mouse_up("#memory-bar", offset=(20, 0))
        await pilot.pause()
        # Memory is a straight line from 8 to 192 here: of the size at the pointer the nearest usual one is meant.
        meant = 8 + memory.fraction_at(20) * (192 - 8)
        usual = (56, 64, 80, 96)
        chosen = min(usual, key=lambda size: abs(size - meant))
        assert made.session.applied[-1].batchSize == chosen
        assert made.session.script.read_bytes() == before.replace(b"batch_size=32", b"batch_size=%d" % chosen)


async def test_after_a_release_the_measurement_takes_the_place_of_the_prediction(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await drag(pilot, "#memory-bar", 8, 12, 16)
        await pilot.pause()
        controls = made.app.query_one(Controls)
        assert (controls.current, controls.wanted) == (made.session.batch_size, None)
        assert "applied: predicted" in made.text
        assert "0 % off, within the ranges" in made.text
        made.session.alter = lambda profile: replace(profile, notes=("with a curve",))
        made.session.say(profileId="profile-2")
        await pilot.pause()
        assert "applied: predicted" in made.text, "the second profile of the same measurement leaves it there"
        await pilot.press("m", "space")
        await pilot.pause()
        assert "applied: predicted" not in made.text


async def test_dragging_throughput_to_its_end_finds_the_best_batch_size(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        end = made.app.query_one("#throughput-bar").size.width - 1
        await drag(pilot, "#throughput-bar", 10, end)
        assert made.app.query_one(Controls).wanted == 192


async def test_the_pointer_may_leave_the_bar_while_it_holds_it(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.mouse_down("#memory-bar", offset=(8, 0))
        await pilot.hover("#whatifs", offset=(30, 5))
        await pilot.pause()
        assert made.app.query_one(Controls).held
        assert made.app.query_one(Controls).wanted is not None
        await pilot.mouse_up("#whatifs", offset=(30, 5))
        await pilot.pause()
        assert not made.app.query_one(Controls).held


async def test_staged_nothing_is_written_before_apply(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = made.session.script.read_bytes()
        await drag(pilot, "#memory-bar", 8, 14)
        assert "staged ○" in made.text
        assert made.session.script.read_bytes() == before
        await pilot.press("a")
        await pilot.pause()
        assert made.session.script.read_bytes() != before
        await pilot.press("u")
        await pilot.pause()
        assert made.session.script.read_bytes() == before


async def test_m_changes_between_live_and_staged(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "live ●" in made.text
        await pilot.press("m")
        await pilot.pause()
        assert "staged ○" in made.text


async def test_keys_move_by_one_and_by_ten_and_enter_takes_it(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("]", "]", "}", "[")
        assert made.app.query_one(Controls).wanted == 43
        assert not made.session.applied
        await pilot.press("enter")
        await pilot.pause()
        assert [question.batchSize for question in made.session.applied] == [43]


async def test_keys_settle_by_themselves(opened_app, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyline_tui.widgets.controls.SETTLE_S", 0.05)
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("]")
        await pilot.pause(0.3)
        assert [question.batchSize for question in made.session.applied] == [33]


async def test_there_is_no_batch_size_below_one(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press(*"{{{{{{")
        assert made.app.query_one(Controls).wanted == 1


async def test_a_typed_number_may_lie_beyond_the_bars(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("b", *"512", "enter")
        await pilot.pause()
        assert [question.batchSize for question in made.session.applied] == [512]


async def test_what_is_no_batch_size_is_not_taken(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("b", "0", "enter")
        await pilot.pause()
        assert "whole number" in made.toasts
        await pilot.press("escape")
        assert not made.session.applied


async def test_escape_goes_back_to_the_script_as_it_is(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("}", "space")
        assert not made.app.query_one(Workbench).asks_nothing
        await pilot.press("escape")
        assert made.app.query_one(Workbench).asks_nothing
        assert "176 samples/s" in made.text


async def test_a_refused_rewrite_says_why_and_keeps_the_question(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.refuse = "the batch size comes from a configuration file"
        await pilot.press("}", "enter")
        await pilot.pause()
        assert "the batch size comes from a configuration file" in made.toasts
        assert made.app.query_one(Controls).wanted == 42


async def test_a_curve_with_one_point_says_why_there_is_nothing_to_drag(opened_app) -> None:
    made = opened_app(alter=lambda profile: replace(profile, curve=profile.curve[:1]))
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "the bars cannot move: 1 point on the curve" in made.text
        await drag(pilot, "#memory-bar", 8, 14)
        await pilot.press("]")
        assert made.app.query_one(Controls).wanted is None
        assert "the bars cannot move" in made.toasts


async def test_a_question_survives_a_new_profile_of_another_edit(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("}")
        await pilot.press("r")
        await pilot.pause()
        assert made.app.profile is not None
        assert made.app.profile.id == "profile-2"
        assert made.app.query_one(Controls).wanted == 42
        assert "32 → 42" in made.text


async def test_a_change_before_the_measurement_takes_the_place_of_the_last_one(opened_app) -> None:
    made = opened_app(slow=True)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("]", "enter")
        await pilot.pause()
        await pilot.press("}", "enter")
        await pilot.pause()
        assert [question.batchSize for question in made.session.applied] == [33, 43]
        assert len(made.session.before) == 1, "one undo brings the file back"
        assert b"batch_size=43" in made.session.script.read_bytes()


async def test_a_change_of_code_that_was_edited_is_written_once_it_is_measured(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.measuring = True
        made.session.say(profileId="profile-1", stale=True)
        await pilot.pause()
        await pilot.press("]", "enter")
        await pilot.pause()
        assert made.session.applied == []
        assert "writes this change afterwards" in made.toasts
        await made.session.profile()
        await pilot.pause()
        await pilot.pause()
        assert [question.batchSize for question in made.session.applied] == [33]


async def test_the_figures_of_a_lopsided_prediction_are_not_cut(opened_app) -> None:
    made = opened_app(live=False)
    wide = Interval(481.5, 158.8, 1320.9)
    answer = made.session.estimate
    made.session.estimate = lambda question: replace(
        answer(question), iteration_ms=wide, throughput=Interval(95_541.2, 34_821.3, 289_712.9)
    )
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("]")
        await pilot.pause()
        assert "176 → 95541/s (34821–289713)" in made.text
        assert "182.0 → 481.5 ms (158.8–1320.9)" in made.text


async def test_what_is_below_the_bars_stays_where_it_is_while_one_is_dragged(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        whatifs, status = made.app.query_one("#whatifs"), made.app.query_one("#status")
        await pilot.mouse_down("#throughput-bar", offset=(6, 0))
        places = []
        # From sizes that were measured to some far beyond, which take more words, and back.
        for stop in (*range(6, 34, 4), *range(34, 6, -4)):
            await pilot.hover("#throughput-bar", offset=(stop, 0))
            await pilot.pause()
            places.append((whatifs.region.y, status.region.height))
        assert len({asked.batchSize for asked in made.session.questions}) > 3
        assert all(height == 1 for _, height in places)
        assert places == sorted(places), "it gives way once at most, and never comes back"
        await pilot.mouse_up("#throughput-bar", offset=(6, 0))


async def test_while_a_bar_is_held_the_figures_are_those_of_the_size_shown(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        answer, gate = made.session.simulate, asyncio.Event()

        async def late(question):
            await gate.wait()
            return await answer(question)

        made.session.simulate = late
        await pilot.mouse_down("#memory-bar", offset=(4, 0))
        for stop in (16, 30):
            await pilot.hover("#memory-bar", offset=(stop, 0))
            await pilot.pause()
            asked = made.app.query_one(Controls).wanted
            assert asked is not None
            line = next(row for row in made.text.splitlines() if "Batch size" in row)
            assert f"32 → {asked} " in line
            assert f"→ {30 + 4.75 * asked:.1f} ms" in line, "read off the curve until the server answers"
            (row,) = (row for row in made.text.splitlines() if " Throughput " in row)
            assert row.endswith(f"→ {throughput(asked) * 1000:.0f} samples/s")
        gate.set()
        await pilot.pause()
        assert f"→ {throughput(asked) * 1000:.0f} samples/s ±" in made.text, "then with its range"
        await pilot.mouse_up("#memory-bar", offset=(30, 0))


async def test_an_answer_without_a_curve_leaves_bars_and_curve_as_they_are(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        answer = made.session.simulate
        for empty in (None, ()):

            async def without(question, empty=empty):
                return replace(await answer(question), curve=empty)

            made.session.simulate = without
            await pilot.press("space")
            await pilot.pause()
            rows = [row for row in made.text.splitlines() if "▇" in row]
            assert len(rows) >= 7, "a row for each point of the curve"
            seen = []
            await pilot.mouse_down("#memory-bar", offset=(1, 0))
            for stop in (1, 15, 30, 45):
                await pilot.hover("#memory-bar", offset=(stop, 0))
                await pilot.pause()
                seen.append(made.app.query_one(Controls).wanted or 32)
            assert seen == sorted(set(seen)), "it goes on moving"
            await pilot.press("escape")
            await pilot.pause()


async def test_under_a_whatif_the_bars_end_where_its_curve_ends(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        # checkpointing: 0.45 of the memory at every size.
        await pilot.press("down", "space")
        await pilot.pause()
        bar, width = made.app.query_one("#memory-bar", DragBar), made.app.query_one("#memory-bar").size.width
        await pilot.mouse_down("#memory-bar", offset=(1, 0))
        found = []
        for stop in (1, width // 2, width - 2):
            await pilot.hover("#memory-bar", offset=(stop, 0))
            await pilot.pause()
            found.append(made.app.query_one(Controls).wanted)
            assert bar.then == pytest.approx(bar.fraction_at(stop))
        assert found == [8, 96, 192]
        await pilot.mouse_up("#memory-bar", offset=(width - 2, 0))
        await pilot.pause()
        assert bar.then == pytest.approx(1.0), "it rests where that size is"


def read_only(lives: SettingPlace | None):
    reason = "the batch size comes from a file of settings"
    return lambda profile: replace(profile, batch_size=BatchSizeReport(32, None, reason, lives=lives))


@pytest.mark.parametrize("live", [True, False])
async def test_a_number_in_a_settings_file_is_written_there(opened_app, live: bool) -> None:
    lives = SettingPlace("/there/config.yaml", 5, "train.batch_size", "32")
    made = opened_app(live=live, alter=read_only(lives))
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "set in config.yaml:5 (train.batch_size)" in made.text
        await drag(pilot, "#memory-bar", 8, 20)
        await pilot.pause()
        asked = made.app.query_one(Controls).wanted
        sizes = [one.batchSize for one in made.session.applied]
        assert sizes == [] if not live else len(sizes) == 1
        assert max((size for size in (asked, *sizes) if size is not None), default=0) > 32
        assert "Not written" not in made.toasts


@pytest.mark.parametrize("live", [True, False])
async def test_without_a_place_the_bars_predict_and_tell_the_reason(opened_app, live: bool) -> None:
    made = opened_app(live=live, alter=read_only(None))
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await drag(pilot, "#memory-bar", 8, 20)
        asked = made.app.query_one(Controls).wanted
        assert asked is not None
        assert asked > 32
        assert f"32 → {asked}" in made.text
        assert "cannot be rewritten: the batch size comes from a file of settings" in made.toasts
        assert made.session.applied == []
        await pilot.press("space")
        await pilot.pause()
        assert [(one.batchSize, one.whatifs) for one in made.session.applied] == (
            [(None, ("fused_optimizer",))] if live else []
        ), "what can be written is"
        assert made.app.query_one(Controls).wanted == asked, "what cannot stays a question"


@pytest.mark.parametrize(
    ("spread", "colour"), [(0.01, "-better"), (0.5, "")], ids=["beyond doubt", "within its range"]
)
async def test_a_gain_is_coloured_only_beyond_its_range(opened_app, spread: float, colour: str) -> None:
    made = opened_app(live=False)
    answer = made.session.estimate

    def unsure(question):
        found = answer(question)
        ratio = found.speedup
        return replace(found, speedup_range=Interval(ratio, ratio * (1 - spread), ratio * (1 + spread)))

    made.session.estimate = unsure
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("}", "}")
        await pilot.pause()
        bars = [made.app.query_one(f"#{name}-bar", DragBar) for name in ("throughput", "memory")]
        assert bars[0].has_class("-better") == (colour == "-better")
        assert not bars[1].has_class("-better"), "more memory is no gain"
        await pilot.press("escape")
        await pilot.pause()
        assert not bars[0].has_class("-better")
