"""The server object: holds the state of the connection and notifies the client of changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import FeatureRequestError
from pygls.lsp.server import LanguageServer

from skyline.capture.request import Known
from skyline.errors import ArgumentsRefused, UsageError
from skyline.report import protocol
from skyline.report.basis import headline_so_far
from skyline.settings.source import SettingsSource
from skyline.trace import store
from skyline.version import __version__
from skyline_lsp import convert, wire
from skyline_lsp.background_task import BackgroundTask
from skyline_lsp.code_changes import CodeNews
from skyline_lsp.convert import NO_NOTEBOOKS, NOTEBOOK_HINT, is_notebook
from skyline_lsp.features import diagnostics
from skyline_lsp.file_watch import FileWatch
from skyline_lsp.journal import Journal
from skyline_lsp.messages import Messages
from skyline_lsp.opened import Traces
from skyline_lsp.options import ProfileOptions
from skyline_lsp.permission import Permission
from skyline_lsp.planner import Planner
from skyline_lsp.profiler import Profiler
from skyline_lsp.saves import Saves
from skyline_lsp.settings import Settings, SettingsBook
from skyline_lsp.settings_files import SettingsFiles
from skyline_lsp.state import Scripts, ScriptState
from skyline_lsp.texts import Texts
from skyline_lsp.training_script import LoopLines, training_loop
from skyline_lsp.tuner import Tuner
from skyline_lsp.verifier import Comparer, Verifier

_GATHER_S = 0.2


class Refresher:
    """Collects refresh requests for lenses and hints and sends them together."""

    def __init__(self, server: SkylineServer) -> None:
        self._server = server
        self._lenses = self._hints = False
        self._timer: asyncio.TimerHandle | None = None

    def lenses(self) -> None:
        """Schedule a refresh of the lenses."""
        self._lenses = True
        self._schedule()

    def hints(self) -> None:
        """Schedule a refresh of the inlay hints."""
        self._hints = True
        self._schedule()

    def close(self) -> None:
        """Cancel the scheduled refresh."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER_S, self._pass_on)

    def _pass_on(self) -> None:
        lenses, hints = self._lenses, self._hints
        self._lenses = self._hints = False
        self._timer = None
        workspace = self._server.client_capabilities.workspace
        if lenses and workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self._server.workspace_code_lens_refresh(None)
        if hints and workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self._server.workspace_inlay_hint_refresh(None)


logger = logging.getLogger(__name__)

_SETTINGS_TIMEOUT_S = 2.0
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithNotebook(
            types.NotebookDocumentFilterNotebookType("jupyter-notebook"),
            [types.NotebookCellLanguage("python")],
        )
    ],
    save=True,
)


class SkylineServer(LanguageServer):
    """One session with one client. Features read its state; only the event loop's thread writes it."""

    protocol: Messages  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, command_line: SettingsSource | None = None) -> None:
        # Full document sync: an error in one change is corrected by the next one.
        super().__init__(
            "skyline",
            __version__,
            protocol_cls=Messages,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            notebook_document_sync=_NOTEBOOKS,
            converter_factory=wire.converter,
        )
        self.book = SettingsBook(command_line)
        self.settings_known = asyncio.Event()
        self.texts = Texts()
        self.scripts = Scripts()
        self.traces = Traces()
        self.journal = Journal()
        self.code_news = CodeNews(self)
        self.saves = Saves(self)
        self.verifier = Verifier(BackgroundTask(self))
        self.comparer = Comparer(BackgroundTask(self))
        self.planner = Planner(BackgroundTask(self))
        self.tuner = Tuner(BackgroundTask(self))
        self.watch = FileWatch(self.saves.from_disk)
        self.refresher = Refresher(self)
        self.loops = LoopLines(self)
        self.settings_files = SettingsFiles(self)
        self.permission = Permission(self)
        self.warm_start = True
        self.kept_options: dict[str, ProfileOptions] = {}
        """Profile options of earlier sessions by script path, as stored by the client."""
        self.latest = ""
        """The URI of the most recently used script, for commands without an argument."""
        self.client_name = ""
        """Name that the client sent in ``clientInfo``. Empty if it sent none."""
        self.shutdown_requested = False
        self._faults: set[str] = set()
        self._told: set[str] = set()
        self._published: dict[str, list[types.Diagnostic]] = {}

    @cached_property
    def profiler(self) -> Profiler:
        """Runs the scripts. Created on first use because it needs the running event loop."""
        return Profiler(self, asyncio.get_running_loop())

    @property
    def trusted(self) -> bool:
        """True if code of this workspace may be run."""
        return self.book.trusted

    def require_cells(self, uri: str) -> None:
        """Raise UsageError for a notebook in which the client cannot place edits.

        It can if it synchronises the cells, or if it works on files.
        """
        if is_notebook(uri) and self.texts.document(uri) is None and not self.saves.follows_disk:
            raise UsageError(NO_NOTEBOOKS, hint=NOTEBOOK_HINT)

    def require_trust(self) -> None:
        """Raise NotTrusted if the workspace is not trusted."""
        if not self.trusted:
            raise NotTrusted

    async def await_settings(self) -> None:
        """Wait until the client's settings were requested: its first requests may arrive earlier.

        Returns after a timeout in any case.
        """
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.settings_known.wait(), _SETTINGS_TIMEOUT_S)

    def settings_at(self, path: str | None) -> Settings:
        """The effective settings of a file. ``path`` None: the settings that apply to all files."""
        return self.book.at(path)

    def state_of(self, uri: str) -> ScriptState | None:
        """The state of a script. None if no request has named it yet."""
        return self.scripts.at(convert.path_of(uri) or "")

    def touch(self, uri: str) -> ScriptState | None:
        """The state of a script, created on first use.

        On first use the saved profile is loaded and saves of the script are watched. None if the URI is not a
        local file, or if the file neither exists nor is open.
        """
        path = convert.path_of(uri)
        if path is None or not (os.path.isfile(path) or self.texts.at(path)):
            return None
        known = self.scripts.at(path)
        state = self.scripts.ensure(uri, path)
        self.latest = uri
        if known is None:
            state.asked = self.permission.was_given(path)
            state.options = self.kept_options.get(path, state.options)
            self.saves.follow([path])
            self.watch.add_folder(os.path.join(os.path.dirname(path), store.FOLDER))
            self.profiler.restore(state)
            self.tell_problems(path)
        return state

    def folder_of(self, path: str) -> str:
        """Working folder of a script: the innermost workspace folder that contains it, else its own folder."""
        roots = [convert.path_of(folder.uri) for folder in self.workspace.folders.values()]
        roots.append(self.workspace.root_path)
        around = [root for root in roots if root and Path(root) in Path(path).parents]
        return max(around, key=len, default=os.path.dirname(path))

    def tell_problems(self, path: str | None) -> None:
        """Report the invalid settings of a file, each once. Their defaults apply."""
        news = self.book.news(path)
        if news:
            self.warn("Skyline settings: " + "; ".join(news))

    def is_training_script(self, path: str) -> bool:
        """True if the file contains a training loop, found without running it."""
        text = self.texts.current(path)
        return text is not None and training_loop(text) is not None

    def settings_changed(self) -> None:
        """Reload the settings of the client and of project files, and refresh the display."""
        self.book.forget()
        for path in [None, *(state.path for state in self.scripts)]:
            self.tell_problems(path)
        self.refresh()

    def profile_changed(self, state: ScriptState) -> None:
        """Notify the client that a script has a new profile or a new error, or that its staleness changed."""
        self.saves.follow(state.files())
        self.settings_files.follow(state)
        prepared, error = state.prepared, state.error
        change = protocol.ProfileChanged(
            uri=state.uri,
            profileId=prepared.report.id if prepared else None,
            headline=prepared.headline if prepared else "",
            stale=state.stale,
            error=str(error) if error else None,
            errorLine=error.line or None if error else None,
            usage=error.usage if isinstance(error, ArgumentsRefused) else None,
        )
        self.protocol.notify(protocol.PROFILE_CHANGED, wire.send(change))
        self.code_changed(state)
        self.refresh()

    def code_changed(self, state: ScriptState) -> None:
        """Report the differences between the code and the profile to the client once typing pauses."""
        self.code_news.look(state)

    def measuring(self, state: ScriptState, known: Known) -> None:
        """Send the first results of a run before its profile is complete."""
        news = protocol.Measuring(
            uri=state.uri,
            text=headline_so_far(known.batch_size, known.iteration_ms, known.throughput),
            batchSize=known.batch_size,
            iterationMs=known.iteration_ms,
            throughput=known.throughput,
            scriptSeconds=known.script_s,
        )
        self.protocol.notify(protocol.MEASURING, wire.send(news))

    def texts_changed(self, path: str) -> None:
        """Update staleness after a text change: a profile may become outdated, or valid again after an undo."""
        for state in self.scripts.concerned_by(path):
            self.code_changed(state)
            outdated = state.is_stale(self.texts)
            if state.prepared is not None and not outdated and state.changed_since_attempt(self.texts):
                # The failing code was removed, and the profile is valid for the current code.
                state.error = None
            stale = outdated or (state.error is not None and state.prepared is not None)
            if stale != state.stale:
                state.stale = stale
                self.profile_changed(state)
        self.publish_diagnostics()

    def refresh(self) -> None:
        """Ask the client to request lenses and hints again, and update the diagnostics."""
        self.refresher.lenses()
        self.refresher.hints()
        self.publish_diagnostics()

    def publish_diagnostics(self) -> None:
        """Send the diagnostics of each file whose diagnostics changed since they were last sent."""
        current = diagnostics.by_file(self.scripts, self.texts, self.workspace.position_codec, self.book)
        for path in {*current, *self._published}:
            now = current.get(path, [])
            if now != self._published.get(path, []):
                self.text_document_publish_diagnostics(
                    types.PublishDiagnosticsParams(self.texts.uri(path), now)
                )
        self._published = current

    def warn(self, message: str) -> None:
        """Show a warning to the user."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))

    def once(self, message: str) -> None:
        """Show an information message to the user, once per session."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Show an internal error that occurred outside a request, each message once."""
        if source != FeatureRequestError and str(error) not in self._faults:
            self._faults.add(str(error))
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, str(error)))

    def stop_runs(self) -> None:
        """Cancel all runs. The server keeps running."""
        for state in self.scripts:
            self.profiler.cancel(state)
            self.verifier.task.cancel(state.path)
            self.comparer.task.cancel(state.path)
            self.planner.task.cancel(state.path)
            self.tuner.task.cancel(state.path)

    def stop_work(self) -> None:
        """End all runs and file watches. Safe to call more than once."""
        self.refresher.close()
        self.permission.close()
        self.code_news.close()
        self.settings_files.close()
        self.verifier.task.close()
        self.comparer.task.close()
        self.planner.task.close()
        self.tuner.task.close()
        if "profiler" in self.__dict__:
            self.profiler.close()
        self.watch.close()

    def shutdown(self) -> None:
        """Clean up at the end of the connection, however it ended: leave no process behind."""
        self.stop_work()
        super().shutdown()


class NotTrusted(UsageError):
    """The user has not trusted this workspace."""

    def __init__(self) -> None:
        super().__init__(
            "This workspace is not trusted, so Skyline runs none of its code",
            hint="Trust it in the editor. Saved profiles are shown without trust.",
        )
