"""A compositor that redraws only the widgets visible in the changed area.

For every frame, Textual 8 renders all widgets whose container intersects the smallest rectangle around the changes, and
the widgets below them. With changes at the top and at the bottom, that is the whole screen, many times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

Spans = dict[int, list[tuple[int, int]]]
"""For each row, the column ranges that are still to be drawn."""


class NearCompositor(Compositor):
    """Skips output that Textual would discard anyway, so that the frame stays the same."""

    _changed: Spans | None = None
    """The area that the current frame changes; None: the whole screen."""
    _left: Spans

    def render_partial_update(self) -> ChopsUpdate | None:
        """A frame with the changes since the last one."""
        changed: Spans = {}
        for row, left, right in self._regions_to_spans(self._dirty_regions):
            changed.setdefault(row, []).append((left, right))
        self._changed = changed
        try:
            return super().render_partial_update()
        finally:
            self._changed = None

    def _render_chops(
        self, crop: Region, is_rendered_line: Callable[[int], bool]
    ) -> Sequence[Mapping[int, Strip]]:
        self._left = (
            {row: [crop.column_span] for row in crop.line_range} if self._changed is None else self._changed
        )
        return super()._render_chops(crop, is_rendered_line)

    def _get_renders(self, crop: Region | None = None) -> Iterator[tuple[Region, Region, list[Strip]]]:
        """Render the widgets from front to back, until nothing is left to draw."""
        left = self._left
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            if getattr(widget, "PAINTS_CHILDREN", False) and (crop is None or crop.overlaps(seen)):
                # The widgets in front of it count as empty until they are rendered.
                yield region, seen, widget.render_lines(seen.translate(-region.offset))
                continue
            begin, end = seen.column_span
            rows = [row for row in left if seen.y <= row < seen.bottom and _meet(left[row], begin, end)]
            if not rows:
                continue
            # Render whole rows, because the boundaries of widgets are computed for their full width.
            near = Region(seen.x, min(rows), seen.width, max(rows) + 1 - min(rows))
            yield region, near, widget.render_lines(near.translate(-region.offset))
            for row in rows:
                left[row] = list(_without(left[row], begin, end))
                if not left[row]:
                    del left[row]


class NearScreen(Screen[None]):
    """The bottom screen, drawn by this compositor."""

    def __init__(self) -> None:
        super().__init__(id="_default")
        self._compositor = NearCompositor()


def _meet(spans: Iterable[tuple[int, int]], begin: int, end: int) -> bool:
    return any(left < end and begin < right for left, right in spans)


def _without(spans: Iterable[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of the spans outside the range."""
    for left, right in spans:
        if left < min(right, begin):
            yield left, min(right, begin)
        if max(left, end) < right:
            yield max(left, end), right
