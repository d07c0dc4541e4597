"""The row of keys: made again where it shows something else, and only there."""

from __future__ import annotations

from textual.widgets._footer import FooterKey

from skyline_tui.widgets.keys import Keys


async def test_the_row_of_keys_is_made_again_only_where_it_changes(opened_app) -> None:
    app = opened_app().app
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.pause()
        keys = list(app.query(FooterKey))
        assert keys
        app.screen.refresh_bindings()
        await pilot.pause()
        assert list(app.query(FooterKey)) == keys

        footer = app.query_one(Keys)
        footer.show_command_palette = not footer.show_command_palette
        app.screen.refresh_bindings()
        await pilot.pause()
        assert abs(len(app.query(FooterKey)) - len(keys)) == 1
