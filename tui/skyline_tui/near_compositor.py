"""Draws, for a frame that changes a little, the widgets that are seen there alone.

Textual 8 renders for every frame all widgets whose container reaches into the smallest rectangle around the changes,
and those below them: with a bar on top and a line at the bottom, that is the whole screen, many times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip

Spans = dict[int, list[tuple[int, int]]]
"""By row, columns from and up to which something is still to be drawn."""


class NearCompositor(Compositor):
    """What it leaves out was to be thrown away: the frame is the same."""

    _changed: Spans | None = None
    """What the frame that is being drawn changes; None: all of it."""
    _left: Spans

    def render_partial_update(self) -> ChopsUpdate | None:
        """A frame of what changed since the last one."""
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
        """Front to back, up to where nothing is left to be drawn."""
        left = self._left
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            if getattr(widget, "PAINTS_CHILDREN", False) and (crop is None or crop.overlaps(seen)):
                # What stands in front of it is empty until it was asked.
                yield region, seen, widget.render_lines(seen.translate(-region.offset))
                continue
            begin, end = seen.column_span
            rows = [row for row in left if seen.y <= row < seen.bottom and _meet(left[row], begin, end)]
            if not rows:
                continue
            # Whole rows: where widgets begin and end on them is worked out for their full width.
            near = Region(seen.x, min(rows), seen.width, max(rows) + 1 - min(rows))
            yield region, near, widget.render_lines(near.translate(-region.offset))
            for row in rows:
                left[row] = list(_without(left[row], begin, end))
                if not left[row]:
                    del left[row]


class NearScreen(Screen[None]):
    """The screen that everything else stands on, drawn so."""

    def __init__(self) -> None:
        super().__init__(id="_default")
        self._compositor = NearCompositor()


def _meet(spans: Iterable[tuple[int, int]], begin: int, end: int) -> bool:
    return any(left < end and begin < right for left, right in spans)


def _without(spans: Iterable[tuple[int, int]], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """What of the spans lies outside."""
    for left, right in spans:
        if left < min(right, begin):
            yield left, min(right, begin)
        if max(left, end) < right:
            yield max(left, end), right
