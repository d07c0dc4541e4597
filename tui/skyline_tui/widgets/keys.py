"""The keys in the last row of the screen."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Footer


class Keys(Footer):
    """A footer that is made again only where it shows something else.

    Textual makes it again whenever the focus moves, and each key of it takes as long as a small widget.
    """

    _made_of: tuple[object, ...] = ()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Compare the keys of the screen with those on show."""
        found = tuple(
            (binding, enabled, tooltip)
            for _, binding, enabled, tooltip in screen.active_bindings.values()
            if binding.show
        )
        made_of = (self.show_command_palette, *found)
        if made_of == self._made_of:
            return
        super().bindings_changed(screen)
        # Under another screen, and without the focus, it stays as it is.
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self._made_of = made_of
