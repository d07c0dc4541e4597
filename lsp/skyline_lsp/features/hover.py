"""Hover: all details of a line. At the batch size, also the batch-size curve."""

from __future__ import annotations

from lsprotocol import types

from skyline.source.text import SourceText
from skyline.whatif.question import Question
from skyline_lsp import convert
from skyline_lsp.batch_size_place import BatchSizePlace, batch_size_place
from skyline_lsp.curve_table import curve_table, largest_that_fits, point_of
from skyline_lsp.line_story import line_costs, story
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/hover``."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return hover_at(server, params.text_document.uri, params.position)


def hover_at(server: SkylineServer, uri: str, position: types.Position) -> types.Hover | None:
    """The hover text for a position: the details of its line, and the batch-size curve at the batch size.

    None if the line has no cost or was edited since the profile.
    """
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    settings = server.settings_at(path)
    if path is None or text is None or not (settings.enable and settings.hover.enable):
        return None
    wanted = convert.line_number(position)
    codec = server.workspace.position_codec
    told: list[str] = []
    place = convert.line_range(codec, text, wanted)
    for cost in line_costs(server.scripts, path, text):
        if cost.line == wanted:
            told.append(story(cost))
            break
    for state in server.scripts.with_batch_size_in(path):
        found = _place_in(state, path, text)
        if found is None or found.span.line != wanted:
            continue
        literal = convert.to_range(codec, text, found.span)
        if literal.start.character <= position.character <= literal.end.character:
            told += [table] if (table := _table(state, found.value)) else []
            place = literal
    if not told:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(told)), range=place)


def _place_in(state: ScriptState, path: str, text: SourceText) -> BatchSizePlace | None:
    prepared = state.prepared
    return batch_size_place(prepared.report, prepared.sources.get(path), text) if prepared else None


def _table(state: ScriptState, current: int) -> str:
    """The batch-size curve, including the size in the current code."""
    prepared = state.prepared
    assert prepared is not None
    curve = prepared.report.curve
    if curve and all(point.batch_size != current for point in curve):
        point = point_of(state.estimate(Question(batch_size=current)), current)
        curve = (*curve, point) if point is not None else curve
    return curve_table(
        prepared.report,
        curve,
        current=current,
        largest=largest_that_fits(prepared.analysis),
        stale=state.stale,
    )
