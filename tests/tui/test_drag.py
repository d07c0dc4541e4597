"""Both bars dragged by hand over real scripts: the screen is read, the server is real, the file on disk is compared."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyline_tui.app import SkylineApp
from skyline_tui.client import Server
from skyline_tui.session import ServerSession
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.curve import Curve
from skyline_tui.widgets.drag_bar import HANDLE, DragBar
from skyline_tui.widgets.status import Status
from skyline_tui.widgets.trouble import Trouble

if TYPE_CHECKING:
    from textual.pilot import Pilot

pytestmark = [pytest.mark.capture, pytest.mark.timeout(900)]

SCRIPTS = Path(__file__).resolve().parents[2] / "extension" / "e2e" / "scripts"
BARS = ("throughput", "memory")
POSITIONS = 10
# Two other batch sizes, in the least number of rounds.
BRIEF = {"steps": 3, "budgetS": 0.05}
WAIT_S = 180


@dataclass(frozen=True)
class Kind:
    """A script, and how its batch size is written: in which file, with ``N`` for the number."""

    folder: str
    file: str
    literal: str
    batch_size: int


KINDS = (
    Kind("argparse", "train.py", '"--batch-size", type=int, default=N)', 32),
    Kind("dataclass", "train.py", "Settings(batch_size=N)", 16),
    Kind("split", "data.py", "BATCH_SIZE = N\n", 24),
    Kind("yaml", "config.yaml", "  batch_size: N\n", 16),
)


@dataclass(frozen=True)
class Seen:
    """The content that a person reads off the screen while the pointer holds a bar."""

    x: int
    handle: int
    batch_size: int
    figures: tuple[str, str]
    time: str
    curve_rows: int


class Hand:
    """One screen, read and used as a person does."""

    def __init__(self, app: SkylineApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def controls(self) -> Controls:
        return self.app.query_one(Controls)

    def bar(self, name: str) -> DragBar:
        return self.app.query_one(f"#{name}-bar", DragBar)

    def screen(self) -> list[str]:
        """The current rows of the screen."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    def words(self, selector: str, screen: list[str] | None = None) -> str:
        """The text on the screen in the region of this widget."""
        region = self.app.query_one(selector).region
        rows = self.screen() if screen is None else screen
        return "\n".join(row[region.x : region.right] for row in rows[region.y : region.bottom])

    @property
    def size_shown(self) -> int:
        """The batch size that the screen says is asked."""
        return _size(self.words("#batch-line"))

    def handle(self, name: str, screen: list[str] | None = None) -> int:
        """The column of the bar in which its handle is."""
        row = self.words(f"#{name}-bar", screen)
        assert row.count(HANDLE) == 1, row
        return row.index(HANDLE)

    def place_of(self, name: str, batch_size: int) -> int:
        """The column at which the curve of the profile has a batch size: what the bar's ends are is worked out here."""
        assert self.app.profile is not None
        points = sorted(self.app.profile.curve, key=lambda point: point.batch_size)
        values = [
            point.throughput.value if name == "throughput" else point.peak_bytes.value for point in points
        ]
        (right,) = [point for point in points if point.batch_size >= batch_size][:1]
        (left,) = [point for point in points if point.batch_size <= batch_size][-1:]
        share = (batch_size - left.batch_size) / max(right.batch_size - left.batch_size, 1)
        ms = left.iteration_ms.value + share * (right.iteration_ms.value - left.iteration_ms.value)
        peak = left.peak_bytes.value + share * (right.peak_bytes.value - left.peak_bytes.value)
        value = 1e3 * batch_size / ms if name == "throughput" else peak
        fraction = (value - min(values)) / (max(values) - min(values))
        return 1 + round(fraction * (self.bar(name).size.width - 3))

    async def until(self, true: Callable[[], bool], what: str) -> None:
        for _ in range(WAIT_S * 20):
            if true():
                await self.pilot.pause()
                return
            await asyncio.sleep(0.05)
        trouble = self.app.query_one(Trouble).message
        raise AssertionError(f"waited {WAIT_S} s in vain for {what}; {trouble}\n{self.words('#workbench')}")

    async def measured(self) -> None:
        await self.until(
            lambda: self.bar("throughput").now is not None and not self.bar("throughput").why_not, "a curve"
        )
        await self.until(lambda: not self.app.query_one(Status).busy, "the end of the measurement")

    async def answered(self) -> None:
        """Wait until the numbers on the screen are the server's, for the batch size on the screen."""

        def there() -> bool:
            screen = self.screen()
            size = _size(self.words("#batch-line", screen))
            return size == self.controls.current or f"batch {size}: " in self.words("#status", screen)

        await self.until(there, "an answer")

    async def look(self, name: str, x: int) -> Seen:
        await self.pilot.pause()
        await self.answered()
        screen = self.screen()
        line = self.words("#batch-line", screen)
        return Seen(
            x,
            self.handle(name, screen),
            _size(line),
            (self.words("#throughput-figures", screen), self.words("#memory-figures", screen)),
            line,
            sum("▇" in row for row in self.words("#curve", screen).splitlines()),
        )

    async def along(self, name: str) -> list[Seen]:
        """Hold a bar at its left end, and stop at ten places on the way to the right end."""
        bar = self.bar(name)
        last = bar.size.width - 2
        columns = [1 + round(step * (last - 1) / (POSITIONS - 1)) for step in range(POSITIONS)]
        await self.pilot.mouse_down(bar, offset=(columns[0], 0))
        seen = []
        for x in columns:
            await self.pilot.hover(bar, offset=(x, 0))
            seen.append(await self.look(name, x))
        return seen


def _size(batch_line: str) -> int:
    found = re.search(r"Batch size (?:\d+ → )?(\d+)", batch_line)
    assert found is not None, batch_line
    return int(found[1])


def _open(kind: str, folder: Path, *, live: bool) -> tuple[SkylineApp, Path]:
    shutil.copytree(SCRIPTS / kind, folder / kind)
    script = folder / kind / "train.py"
    return (
        SkylineApp(script, lambda post: ServerSession(script, Server(post, {"profile": BRIEF})), live=live),
        script,
    )


def _usual() -> set[int]:
    return {*range(1, 9), *(step * 2**doubled for step in range(4, 8) for doubled in range(1, 16))}


def _check(name: str, seen: list[Seen], hand: Hand) -> None:
    report = "\n".join(map(str, seen))
    profile = hand.app.profile
    assert profile is not None
    sizes = [one.batch_size for one in seen]
    rates = {point.batch_size: point.throughput.value for point in profile.curve}
    assert all(abs(one.handle - one.x) <= 1 for one in seen), f"the handle left the pointer\n{report}"
    assert sizes == sorted(sizes), f"the batch size does not rise with the pointer\n{report}"
    assert sizes[0] == min(rates), f"the left end is the smallest of the curve\n{report}"
    best = max(rates, key=rates.__getitem__) if name == "throughput" else max(rates)
    known = _usual() | {min(rates), max(rates), profile.batch_size.value}
    assert best == sizes[-1] or best not in known, f"the right end is the best of the curve, {best}\n{report}"
    assert len(set(sizes)) >= 5, f"most of the bar is dead\n{report}"
    assert set(sizes) <= known, f"nobody uses such sizes\n{report}"
    assert len({one.figures for one in seen}) == len(set(sizes)), f"a figure stands still\n{report}"
    rows = {one.curve_rows for one in seen}
    assert rows == {seen[0].curve_rows}, f"rows of the curve come or go\n{report}"
    assert seen[0].curve_rows >= 2, f"the curve is gone\n{report}"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.folder, marks=() if kind.folder == "split" else pytest.mark.long)
        for kind in KINDS
    ],
)
async def test_both_bars_follow_the_pointer_and_the_file_gets_the_number_shown(
    kind: Kind, tmp_path: Path
) -> None:
    app, script = _open(kind.folder, tmp_path, live=False)
    file = script.parent / kind.file
    before = file.read_text()
    assert kind.literal.replace("N", str(kind.batch_size)) in before
    async with app.run_test(size=(120, 40)) as pilot:
        hand = Hand(app, pilot)
        await hand.measured()
        assert hand.size_shown == kind.batch_size
        curve = [str(row.prompt) for row in app.query_one(Curve).options]
        for name in BARS:
            seen = await hand.along(name)
            _check(name, seen, hand)
            assert file.read_text() == before, "nothing is written while a bar is held"
            # Let go where the bar is neither at an end nor where the script is.
            stop = next(one for one in seen[3:] if one.batch_size != kind.batch_size)
            await pilot.hover(hand.bar(name), offset=(stop.x, 0))
            await pilot.mouse_up(hand.bar(name), offset=(stop.x, 0))
            await hand.answered()
            assert hand.size_shown == stop.batch_size, "letting go moves nothing"
            assert file.read_text() == before, "staged: nothing is written before it is applied"
            assert [str(row.prompt) for row in app.query_one(Curve).options] == curve
            await pilot.press("escape")
            await pilot.pause()
            assert hand.size_shown == kind.batch_size

        await pilot.press("m")
        for name, place in zip(BARS, (0.6, 0.35), strict=True):
            bar = hand.bar(name)
            x = 1 + round(place * (bar.size.width - 3))
            await pilot.mouse_down(bar, offset=(4, 0))
            await pilot.hover(bar, offset=(x, 0))
            await hand.answered()
            shown = hand.size_shown
            assert shown != kind.batch_size
            await pilot.mouse_up(bar, offset=(x, 0))
            after = before.replace(
                kind.literal.replace("N", str(kind.batch_size)), kind.literal.replace("N", str(shown))
            )
            await hand.until(lambda: file.read_text() != before, "the rewritten file")
            assert file.read_text() == after
            assert abs(hand.handle(name) - hand.place_of(name, shown)) <= 1
            await pilot.press("u")
            await hand.until(lambda: file.read_text() == before, "the file as it was")
            await hand.until(lambda: hand.size_shown == kind.batch_size, "the question dropped")
            if name != BARS[-1]:
                await hand.measured()
