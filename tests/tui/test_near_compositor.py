"""The parts left out of a frame are those that would have been thrown away."""

from __future__ import annotations

import pytest
from textual._compositor import Compositor

from skyline_tui.near_compositor import NearCompositor


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_frames_are_those_that_textual_draws(opened_app, size: tuple[int, int]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        made.app.notify("something in front of the rest")
        await pilot.pause()
        screen = made.app.screen
        near = screen._compositor
        assert isinstance(near, NearCompositor)
        plain = Compositor()
        plain.reflow(screen, made.app.size)
        wanted = [strip.text for strip in plain.render_strips()]
        assert [strip.text for strip in near.render_strips()] == wanted
        names = ("#throughput-bar", "#status", "#whatifs", "#panel-grid", "#overview")
        for changed in (*((name,) for name in names), ("#throughput-bar", "#status")):
            near._dirty_regions = {made.app.query_one(name).region for name in changed}
            frame = near.render_partial_update()
            assert frame is not None
            for row, left, right in frame.spans:
                chops = frame.chops[row].items()
                drawn = "".join(strip.text for x, strip in chops if strip is not None and left <= x < right)
                assert drawn == wanted[row][left:right]
