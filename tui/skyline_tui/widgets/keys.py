"""The keys in the last row of the screen."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Footer


class Keys(Footer):
    """A footer that is rebuilt only if its keys change.

    Textual rebuilds it whenever the focus moves, and each key costs as much time as a small widget.
    """

    _made_of: tuple[object, ...] = ()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Rebuild the footer if the keys of the screen differ from the displayed ones."""
        found = tuple(
            (binding, enabled, tooltip)
            for _, binding, enabled, tooltip in screen.active_bindings.values()
            if binding.show
        )
        made_of = (self.show_command_palette, *found)
        if made_of == self._made_of:
            return
        super().bindings_changed(screen)
        # Below another screen, or without the focus, the footer stays as it is.
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self._made_of = made_of
