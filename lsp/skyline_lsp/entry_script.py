"""Finds the script to run for a file: the file itself, or a script that trains with it."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from skyline.errors import SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.settings.pyproject import from_folder
from skyline.source.text import SourceText
from skyline_lsp import convert
from skyline_lsp.state import ScriptState
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
    found = await asyncio.to_thread(trainers, path, os.path.realpath(server.folder_of(path)), unsaved)
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


MOST_FILES = 400
"""Maximum number of Python files to search: more would cause a noticeable delay."""
_MOST_ENTRIES = 20_000
"""Maximum number of folder entries to search: a folder of images may have a million."""
_LARGEST_BYTES = 1 << 20
_SKIPPED = {"node_modules", "site-packages", "dist-packages", "__pycache__", "build", "dist"}
_ENVIRONMENT = "pyvenv.cfg"
_TEST = re.compile(r"^(?:test_.*|.*_test|conftest)\.py$")
_NAMES = (re.compile("train|finetune|pretrain"), re.compile("main|run"))


def trainers(module: str, root: str, unsaved: Mapping[str, str]) -> tuple[str, ...]:
    """Paths of the scripts below ``root`` that train and import ``module``, directly or not; most likely first.

    ``unsaved`` has the texts of files that differ from the disk. Reads files: call it on a worker thread.
    """
    files = _Files(unsaved)
    imports = LocalImports(files.text)
    found: list[tuple[tuple[int, int, int, int, str], str]] = []
    for path in _python_files(root, os.path.dirname(module)):
        text = files.text(path) if path != module and not _TEST.match(os.path.basename(path)) else None
        if text is None or not is_program(text):
            continue
        reached = imports.reached(path)
        if module not in reached:
            continue
        if files.trains(path):
            rank = 0
        elif any(files.trains(other) for other in reached):
            rank = 1
        else:
            continue
        found.append(((rank, reached[module], _by_name(path), _distance(path, module), path), path))
    return tuple(path for _, path in sorted(found))


@dataclass(slots=True)
class _Files:
    """Texts of files. Each file is read once."""

    unsaved: Mapping[str, str]
    _texts: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _training: dict[str, bool] = field(default_factory=dict[str, bool])

    def text(self, path: str) -> str | None:
        if path in self.unsaved:
            return self.unsaved[path]
        if path not in self._texts:
            self._texts[path] = _read(path)
        return self._texts[path]

    def trains(self, path: str) -> bool:
        """True if a file has a training loop or calls a library's trainer."""
        if path not in self._training:
            self._training[path] = trains(SourceText.of(path, self.text(path) or ""))
        return self._training[path]


def _read(path: str) -> str | None:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
            return None
        return SourceText.read(path).text
    except (OSError, ValueError, SkylineError):
        return None


def _python_files(root: str, near: str) -> Iterator[str]:
    """The Python files below ``root``: first those of ``near`` and its parent folders, then breadth first."""
    above = [near]
    while above[-1] != root and (parent := os.path.dirname(above[-1])) != above[-1]:
        above.append(parent)
    folders = deque([*(above if above[-1] == root else [near]), root])
    seen: set[str] = set()
    files = entries = 0
    while folders and files < MOST_FILES and entries < _MOST_ENTRIES:
        folder = folders.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        below, here, looked_at = _listing(folder, _MOST_ENTRIES - entries)
        entries += looked_at
        # Subfolders only: the parents of the module's folder are already in the queue.
        folders.extend(one for one in below if one not in seen)
        for path in here[: MOST_FILES - files]:
            files += 1
            yield path


def _listing(folder: str, most: int) -> tuple[list[str], list[str], int]:
    """The subfolders and Python files of a folder, sorted by name, and the number of entries read."""
    below: list[str] = []
    here: list[str] = []
    count = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > most:
                    break
                if entry.name.startswith(".") or entry.name in _SKIPPED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not os.path.exists(os.path.join(entry.path, _ENVIRONMENT)):
                        below.append(entry.path)
                elif entry.name.endswith(".py") and entry.is_file():
                    here.append(entry.path)
    except OSError:
        return [], [], count
    return sorted(below), sorted(here), count


def _by_name(path: str) -> int:
    stem = os.path.splitext(os.path.basename(path))[0].lower()
    return next((place for place, name in enumerate(_NAMES) if name.search(stem)), len(_NAMES))


def _distance(path: str, module: str) -> int:
    return os.path.relpath(os.path.dirname(path), os.path.dirname(module)).count(os.sep)


ReadText = Callable[[str], "str | None"]
"""Returns the text of a file, or None if it does not exist."""

# As in skyline.source.program: scripts are often a few folders below the package that they import.
_FOLDERS_UPWARD = 3
_MOST_MODULES = 60


@dataclass(slots=True)
class LocalImports:
    """The import graph, built on demand. Each file is parsed once."""

    read: ReadText
    _named: dict[str, tuple[tuple[str, int], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, int], ...]]
    )

    def reached(self, script: str) -> dict[str, int]:
        """The files that a script imports, directly or indirectly, with the length of the import chain."""
        found = {script: 0}
        waiting = [script]
        for path in waiting:
            for imported in self._imported(path, os.path.dirname(script)):
                if imported not in found and len(found) <= _MOST_MODULES:
                    found[imported] = found[path] + 1
                    waiting.append(imported)
        del found[script]
        return found

    def _imported(self, path: str, script_folder: str) -> Iterator[str]:
        for name, level in self._names(path):
            for base in _folders(path, script_folder, name, level):
                stem = os.path.join(base, *name.split(".")) if name else base
                candidates = [f"{stem}.py"] if name else []
                candidates.append(os.path.join(stem, "__init__.py"))
                known = next((one for one in candidates if self.read(one) is not None), None)
                if known is not None:
                    yield known
                    break

    def _names(self, path: str) -> tuple[tuple[str, int], ...]:
        """The dotted names that a file imports, each with its number of leading dots."""
        if path not in self._named:
            text = self.read(path)
            try:
                tree = ast.parse(text or "")
            except (SyntaxError, ValueError, RecursionError):
                # The text is often not valid Python while the user types.
                tree = ast.Module([], [])
            self._named[path] = tuple(dict.fromkeys(_imports(tree)))
        return self._named[path]


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # Importing a.b runs a/__init__.py as well.
                parts = alias.name.split(".")
                yield from ((".".join(parts[: count + 1]), 0) for count in range(len(parts)))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            parts = module.split(".") if module else []
            yield from ((".".join(parts[: count + 1]), node.level) for count in range(len(parts)))
            yield from (
                (f"{module}.{alias.name}".lstrip("."), node.level)
                for alias in node.names
                if alias.name != "*"
            )


def _folders(path: str, script_folder: str, name: str, level: int) -> list[str]:
    """Search path of a name: the importer's package, or the script's folder and its parents."""
    if level:
        return _upward(os.path.dirname(path), level)[level - 1 :]
    if name.partition(".")[0] in sys.stdlib_module_names:
        return []
    return _upward(script_folder, 1 + _FOLDERS_UPWARD)


def _upward(folder: str, most: int) -> list[str]:
    found = [folder]
    while len(found) < most and (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found
