"""The settings files that profiles refer to. The client is asked for their documents, and for no other files."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from skyline.errors import SkylineError
from skyline.source.project import check_inside
from skyline.source.settings_file import is_settings_file

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer
    from skyline_lsp.state import ScriptState

logger = logging.getLogger(__name__)

_GLOB_CHARACTERS = re.compile(r"[\[\]{}*?]")


class SettingsFiles:
    """Registers for the documents and requests of settings files, if the client supports that."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._asked: set[str] = set()
        self._sent: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, state: ScriptState) -> None:
        """Ask for the settings files of a script's profile, each once. Files outside its project are ignored."""
        new = {path for path in state.settings_files() if is_settings_file(path)} - self._asked
        inside = {path for path in new if self._is_inside(state, path)}
        if inside and self._synchronises():
            self._asked |= inside
            task = asyncio.get_running_loop().create_task(self._register(sorted(inside)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def are_known(self, path: str) -> bool:
        """True if the text of a settings file is known as the user sees it, so that it can be edited.

        That is so if the client has sent the document, will send it when it is opened, or works on files.
        """
        server = self._server
        return server.saves.follows_disk or path in self._sent or server.texts.at(path) is not None

    def close(self) -> None:
        """Cancel the requests under way."""
        for task in self._tasks:
            task.cancel()

    def _is_inside(self, state: ScriptState, path: str) -> bool:
        try:
            check_inside(Path(state.path), (path,), (Path(self._server.folder_of(state.path)),))
        except (SkylineError, ValueError):
            return False
        return True

    def _synchronises(self) -> bool:
        document = self._server.client_capabilities.text_document
        able = document.synchronization if document else None
        return bool(able and able.dynamic_registration)

    async def _register(self, paths: list[str]) -> None:
        wanted = [one for path in paths for one in _registrations(self._server.client_capabilities, path)]
        try:
            await self._server.client_register_capability_async(types.RegistrationParams(wanted))
        except Exception:
            logger.warning("the client rejected the registration of %s", ", ".join(paths), exc_info=True)
            return
        self._sent.update(paths)
        self._server.refresh()


def _registrations(able: types.ClientCapabilities, path: str) -> list[types.Registration]:
    """All registrations for one file. The pattern has only its name, because the client may open it through a link."""
    name = _GLOB_CHARACTERS.sub(lambda found: f"[{found[0]}]", os.path.basename(path))
    of_file = types.TextDocumentFilterPattern(f"**/{name}", scheme="file")
    document = able.text_document or types.TextDocumentClientCapabilities()
    plain = types.TextDocumentRegistrationOptions([of_file])
    options: dict[str, Any] = {
        types.TEXT_DOCUMENT_DID_OPEN: plain,
        types.TEXT_DOCUMENT_DID_CHANGE: types.TextDocumentChangeRegistrationOptions(
            types.TextDocumentSyncKind.Full, [of_file]
        ),
        types.TEXT_DOCUMENT_WILL_SAVE: plain,
        types.TEXT_DOCUMENT_DID_SAVE: types.TextDocumentSaveRegistrationOptions([of_file]),
        types.TEXT_DOCUMENT_DID_CLOSE: plain,
    }
    if document.code_lens and document.code_lens.dynamic_registration:
        options[types.TEXT_DOCUMENT_CODE_LENS] = types.CodeLensRegistrationOptions(
            [of_file], resolve_provider=True
        )
    if document.hover and document.hover.dynamic_registration:
        options[types.TEXT_DOCUMENT_HOVER] = types.HoverRegistrationOptions([of_file])
    if document.code_action and document.code_action.dynamic_registration:
        options[types.TEXT_DOCUMENT_CODE_ACTION] = types.CodeActionRegistrationOptions(
            [of_file], resolve_provider=True
        )
    return [
        types.Registration(f"skyline-settings {path} {method}", method, each)
        for method, each in options.items()
    ]
