"""Inlay hints: the time of each line, at its end."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from skyline import units
from skyline_lsp import convert
from skyline_lsp.line_story import line_costs, story
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/inlayHint``, and ``inlayHint/resolve`` for tooltips."""

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        return hints(server, params.text_document.uri, params.range)

    @server.feature(types.INLAY_HINT_RESOLVE)
    def resolve(hint: types.InlayHint) -> types.InlayHint:
        data: Any = hint.data
        if isinstance(data, dict) and isinstance(data.get("uri"), str):
            wanted = types.Range(hint.position, hint.position)
            for known in hints(server, data["uri"], wanted, lazily=False):
                hint.tooltip = known.tooltip
        return hint


def hints(
    server: SkylineServer, uri: str, wanted: types.Range, *, lazily: bool = True
) -> list[types.InlayHint]:
    """The hints of the lines in a range. Lines edited since the profile have none.

    ``lazily``: leave out the tooltips if the client can resolve them one by one.
    """
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    settings = server.settings_at(path)
    if path is None or text is None or not (settings.enable and settings.inlay_hints.enable):
        return []
    lazily = lazily and _resolves_tooltips(server)
    first, last = convert.line_number(wanted.start), convert.line_number(wanted.end)
    codec = server.workspace.position_codec
    found: list[types.InlayHint] = []
    for cost in line_costs(server.scripts, path, text):
        if first <= cost.line <= last and cost.row.share >= settings.inlay_hints.min_share:
            hint = types.InlayHint(
                position=convert.line_end(codec, text, cost.line),
                label=f"{'~ ' if cost.stale else ''}{units.format_ms(cost.row.self_ms)}",
                padding_left=True,
            )
            if lazily:
                hint.data = {"uri": uri}
            else:
                hint.tooltip = types.MarkupContent(types.MarkupKind.Markdown, story(cost))
            found.append(hint)
    return found


def _resolves_tooltips(server: SkylineServer) -> bool:
    document = server.client_capabilities.text_document
    able = document.inlay_hint.resolve_support if document and document.inlay_hint else None
    return able is not None and "tooltip" in able.properties
