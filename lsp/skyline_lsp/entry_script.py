"""Finds the script to run for a file: the file itself, or a script that trains with it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.errors import UsageError
from skyline.settings.pyproject import from_folder
from skyline_lsp import convert
from skyline_lsp.state import ScriptState
from skyline_lsp.trainers import trainers
from skyline_lsp.training_script import is_program, trains

if TYPE_CHECKING:
    from skyline_lsp.server import SkylineServer

_MOST_ACTIONS = 5
"""Maximum number of scripts to choose from: message windows have room for few buttons."""


@dataclass(frozen=True, slots=True)
class ScriptEntry:
    """The way to profile a file. ``itself``: run the file. Otherwise run one of ``scripts``, most likely first.

    With neither, the file only defines names and no script was found that trains with it.
    """

    itself: bool
    scripts: tuple[str, ...] = ()


async def entry_of(server: SkylineServer, path: str) -> ScriptEntry:
    """Find the entry script from the file's text, its profiles, the settings and a search of its folder.

    Raises UsageError if the entry point in the settings does not exist.
    """
    known = server.scripts.at(path)
    if known is not None and (known.prepared is not None or known.job is not None):
        return ScriptEntry(itself=True)
    text = server.texts.current(path)
    if text is None:
        return ScriptEntry(itself=True)
    runs = is_program(text.text)
    if runs and trains(text):
        return ScriptEntry(itself=True)
    covering = server.scripts.covering(path)
    if covering is not None:
        return ScriptEntry(itself=False, scripts=(covering.path,))
    named = server.settings_at(path).profile.entry_point
    if named is not None:
        entry = from_folder(named, Path(server.folder_of(path)))
        if not os.path.isfile(entry):
            raise UsageError(f"There is no {entry}", hint="Correct the setting skyline.profile.entryPoint.")
        return ScriptEntry(itself=False, scripts=(os.path.realpath(entry),))
    unsaved = {one.path: one.text for one in server.texts.unsaved()}
    search = partial(trainers, path, os.path.realpath(server.folder_of(path)), unsaved)
    found = await asyncio.get_running_loop().run_in_executor(None, search)
    # Run a program even if no training was recognised in its text: the run shows whether it trains.
    return ScriptEntry(itself=not found and (runs or trains(text)), scripts=found)


async def script_for(server: SkylineServer, uri: str) -> ScriptState | None:
    """The state of the script to run for a file.

    Informs the user if it is another file, and asks if there are several candidates. None if the user chose none.
    Raises UsageError if the URI is not a local file or no script was found.
    """
    path = convert.path_of(uri)
    if path is None:
        raise _no_file(uri)
    entry = await entry_of(server, path)
    if entry.itself:
        state = server.touch(uri)
        if state is None:
            raise _no_file(uri)
        return state
    name = os.path.basename(path)
    if not entry.scripts:
        raise UsageError(
            f"{name} has no training loop, and no script in {server.folder_of(path)} was found that trains with it",
            hint="Profile the script that contains the training loop, "
            "or name it in the setting skyline.profile.entryPoint.",
        )
    chosen = entry.scripts[0]
    if len(entry.scripts) > 1:
        asked = await _asked(server, name, path, entry.scripts[:_MOST_ACTIONS])
        if asked is None:
            return None
        chosen = asked
    if chosen not in {state.path for state in server.scripts if state.prepared is not None}:
        server.once(
            f"{name} has no training loop. Skyline profiles {os.path.basename(chosen)}, which uses it."
        )
    state = server.touch(server.texts.uri(chosen))
    if state is None:
        raise UsageError(f"There is no {chosen}", hint="Correct the setting skyline.profile.entryPoint.")
    return state


async def _asked(server: SkylineServer, name: str, path: str, scripts: tuple[str, ...]) -> str | None:
    """Ask the user for a script. None if they chose none. The most likely one if the client cannot ask."""
    folder = server.folder_of(path)
    titles = {os.path.relpath(script, folder): script for script in scripts}
    params = types.ShowMessageRequestParams(
        types.MessageType.Info,
        f"{name} has no training loop. Which script do you want to profile?",
        [types.MessageActionItem(title) for title in titles],
    )
    try:
        answer = await server.window_show_message_request_async(params)
    except Exception:
        return scripts[0]
    return titles.get(answer.title) if answer is not None else None


def _no_file(uri: str) -> UsageError:
    hint = "Save it as a file first: a script runs from its own folder."
    return UsageError(f"{uri} is not a file on this machine", hint=hint)
