"""The time of a line, at its end."""

from __future__ import annotations

from lsprotocol import types

from skyline import units
from skyline_lsp import convert
from skyline_lsp.line_cost import line_costs
from skyline_lsp.line_story import story
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/inlayHint``."""

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=False))
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        return hints(server, params.text_document.uri, params.range)


def hints(server: SkylineServer, uri: str, wanted: types.Range) -> list[types.InlayHint]:
    """The hints of the lines in a range; lines that were edited since the profile have none."""
    settings = server.settings.inlay_hints
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    if path is None or text is None or not settings.enable:
        return []
    first, last = convert.line_number(wanted.start), convert.line_number(wanted.end)
    codec = server.workspace.position_codec
    found: list[types.InlayHint] = []
    for cost in line_costs(server.scripts, path, text):
        if first <= cost.line <= last and cost.row.share >= settings.min_share:
            hint = types.InlayHint(
                position=convert.line_end(codec, text, cost.line),
                label=f"{'~ ' if cost.stale else ''}{units.format_ms(cost.row.self_ms)}",
                tooltip=types.MarkupContent(types.MarkupKind.Markdown, story(cost)),
                padding_left=True,
            )
            found.append(hint)
    return found
