"""The lens above the loop of a large script, while somebody types in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lsprotocol import types

LOOP = "for x in loader:\n    loss(x).backward()\n    optimizer.step()\n"
FILLER = "".join(f"value_{number} = {number} + 1\n" for number in range(2000))


async def lens_lines(editor, uri: str) -> list[int]:
    params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
    return [lens.range.start.line for lens in await editor.client.text_document_code_lens_async(params) or []]


async def test_it_moves_with_its_lines_at_once_and_is_looked_for_when_the_typing_rests(
    editor, project: Path
) -> None:
    uri = editor.open(project / "large.py", FILLER + LOOP)
    assert await lens_lines(editor, uri) == [2000]
    editor.change(uri, "import torch\n" + FILLER + LOOP)
    assert await lens_lines(editor, uri) == [2001]
    # An edit that makes it another loop, or none, shows a moment later, without a request.
    for text, expected in ((FILLER, []), (LOOP + FILLER, [0])):
        refreshed = editor.refreshed["lens"]
        editor.change(uri, text)
        while await lens_lines(editor, uri) != expected:
            await asyncio.sleep(0.05)
        await editor.until(lambda before=refreshed: editor.refreshed["lens"] > before)
