"""Every number in full, at every size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Footer

from skyline.report.schema import ProfileReport

SIZES = [(80, 24), (120, 40), (120, 26), (160, 50)]
PANELS = ("whatifs", "lines", "curve", "source")


@pytest.mark.parametrize("size", SIZES)
async def test_the_numbers_are_there_with_what_they_rest_on(opened_app, size: tuple[int, int]) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        text = made.text
        for part in (
            "182.0 ms ±3.6 per iteration",
            "176 samples/s",
            "1.9 of 24.0 GB",
            "14:02",
            "CPU, 2 threads",
        ):
            assert part in text, part
        for phase in ("data 12 %", "forward 31 %", "backward 49 %", "optimizer 6.0 %", "other 2.0 %"):
            assert phase in text, phase
        for part in ("Throughput", "Memory", "Batch size 32", "set in train.py:6", "live ●"):
            assert part in text, part
        assert all(len(line) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize("size", SIZES)
async def test_a_question_is_answered_in_full(opened_app, size: tuple[int, int]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        for _ in range(7):
            await pilot.press("right_curly_bracket")
        await pilot.pause()
        for part in (
            "176 → 198 samples/s ±6",
            "1.9 → 5.2 GB",
            "32 → 102",
            "182.0 → 514.5 ms ±15.4",
            "! extrapolated beyond 96",
        ):
            assert part in made.text, part


@pytest.mark.parametrize(("size", "shown"), [((80, 24), 1), ((120, 26), 2), ((120, 40), 4), ((160, 50), 4)])
async def test_as_many_panels_as_there_is_room_for(opened_app, size: tuple[int, int], shown: int) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        for key, name in zip("wlgp", PANELS, strict=True):
            await pilot.press(key)
            panels = [made.app.query_one(f"#{panel}") for panel in PANELS]
            assert sum(panel.display and panel.size.height > 0 for panel in panels) == shown
            assert made.app.query_one(f"#{name}").size.height >= 4
            assert made.app.focused is made.app.query_one(f"#{name}")


@pytest.mark.parametrize("size", SIZES)
async def test_rows_keep_their_numbers_and_lose_only_words(opened_app, size: tuple[int, int]) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.press("w")
        await pilot.pause()
        for part in (
            "-5.1 ±5.3 ms",
            "+60.1 ±7.3 ms",
            "numerics",
            "-381 MB",
            "[!] compile",
            "needs a C++ compiler",
        ):
            assert part in made.text, part
        await pilot.press("l")
        await pilot.pause()
        for part in ("model.py:88", "41.0 ms    22 %", "66.6 ms    37 %", "(not attr"):
            assert part in made.text, part
        await pilot.press("g")
        await pilot.pause()
        if size != (120, 26):
            for part in ("● ", "? ", "176 ±4", "1.9 GB", "◂"):
                assert part in made.text, part


async def test_at_80_columns_the_footer_shows_every_key_it_names(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        last = made.text.splitlines()[-1]
        assert all(
            part in last
            for part in ("a Apply", "u Undo", "d Diff", "v Verify", "r Measure", "? Help", "q Quit")
        )
        assert len(made.app.query(Footer)) == 1


async def test_the_lines_of_a_very_wide_screen_have_their_phases_and_a_head(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=(220, 50)) as pilot:
        await pilot.pause()
        assert "forward  backward  optimizer     memory       time   share" in made.text


LONG = "train_a_small_transformer_with_an_extremely_long_script_name.py"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_long_script_name_breaks_no_line(opened_app, size: tuple[int, int]) -> None:
    """The basis stands whole on one line, and so does the place of the batch size."""

    def renamed(profile: ProfileReport) -> ProfileReport:
        path = str(Path(profile.script).with_name(LONG))
        knob = replace(profile.batch_size.knob, file=path)
        return replace(profile, script=path, batch_size=replace(profile.batch_size, knob=knob))

    made = opened_app(alter=renamed)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        lines = made.text.splitlines()
        basis = next(line for line in lines if "measured" in line and "14:02" in line)
        assert "8 steps" in basis
        assert "live ●" in lines[0]
        assert any("Batch size 32" in line and "set in train_a" in line for line in lines)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)])
async def test_the_help_folds_no_line(opened_app, size: tuple[int, int]) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        for words in (
            "accept it at once",
            "5 6 7 8 9        Devices, Diff, Findings, Log, Plan",
        ):
            assert words in made.text
