"""The full story of a line, under the pointer."""

from __future__ import annotations

from lsprotocol import types

from skyline_lsp import convert
from skyline_lsp.line_cost import line_costs
from skyline_lsp.line_story import story
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/hover``."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        return hover_at(server, params.text_document.uri, params.position)


def hover_at(server: SkylineServer, uri: str, position: types.Position) -> types.Hover | None:
    """What is known about the line of a position; nothing where it costs nothing, or was edited since."""
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    settings = server.settings_at(path)
    if path is None or text is None or not (settings.enable and settings.hover.enable):
        return None
    wanted = convert.line_number(position)
    for cost in line_costs(server.scripts, path, text):
        if cost.line == wanted:
            return types.Hover(
                types.MarkupContent(types.MarkupKind.Markdown, story(cost)),
                range=convert.line_range(server.workspace.position_codec, text, wanted),
            )
    return None
