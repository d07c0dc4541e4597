"""The server object: what it remembers, and how it tells the client that something changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from skyline.capture.request import Known
from skyline.errors import ArgumentsRefused
from skyline.report import protocol
from skyline.report.headline import headline_so_far
from skyline.settings.source import SettingsSource
from skyline.trace import store
from skyline.version import __version__
from skyline_lsp import convert, wire
from skyline_lsp.code_news import CodeNews
from skyline_lsp.comparing import Comparer
from skyline_lsp.errand import Errand
from skyline_lsp.features import diagnostics
from skyline_lsp.journal import Journal
from skyline_lsp.loop_lines import LoopLines
from skyline_lsp.messages import Messages
from skyline_lsp.opened import Traces
from skyline_lsp.options import ProfileOptions
from skyline_lsp.permission import Permission
from skyline_lsp.profiling import Profiler
from skyline_lsp.refreshing import Refresher
from skyline_lsp.saves import Saves
from skyline_lsp.settings import Settings, SettingsBook
from skyline_lsp.state import Scripts, ScriptState
from skyline_lsp.texts import Texts
from skyline_lsp.training_script import training_loop
from skyline_lsp.trust import NotTrusted
from skyline_lsp.verifying import Verifier
from skyline_lsp.watch import FileWatch

logger = logging.getLogger(__name__)

_SETTINGS_TIMEOUT_S = 2.0


class SkylineServer(LanguageServer):
    """One session with one client. Features read from here; only the event loop's thread writes."""

    protocol: Messages  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, command_line: SettingsSource | None = None) -> None:
        # Whole documents: whatever went wrong with one change is right again with the next.
        super().__init__(
            "skyline",
            __version__,
            protocol_cls=Messages,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
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
        self.verifier = Verifier(Errand(self))
        self.comparer = Comparer(Errand(self))
        self.watch = FileWatch(self.saves.from_disk)
        self.refresher = Refresher(self)
        self.loops = LoopLines(self)
        self.permission = Permission(self)
        self.warm_start = True
        self.kept_options: dict[str, ProfileOptions] = {}
        """How scripts were profiled in earlier sessions, by path, as the client has kept it."""
        self.latest = ""
        """The URI of the script that was last worked on, for a command that names none."""
        self.client_name = ""
        """What the client calls itself; empty where it does not say."""
        self.shutdown_requested = False
        self._faults: set[str] = set()
        self._told: set[str] = set()
        self._published: dict[str, list[types.Diagnostic]] = {}

    @cached_property
    def profiler(self) -> Profiler:
        """Runs the scripts; made on first use, since it needs the running event loop."""
        return Profiler(self, asyncio.get_running_loop())

    @property
    def trusted(self) -> bool:
        """Whether anything of this workspace may be run."""
        return self.book.trusted

    def require_trust(self) -> None:
        """Raise NotTrusted where nothing may be run."""
        if not self.trusted:
            raise NotTrusted

    async def await_settings(self) -> None:
        """Return once the client was asked for its settings: its first requests may come before that."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.settings_known.wait(), _SETTINGS_TIMEOUT_S)

    def settings_at(self, path: str | None) -> Settings:
        """The settings in force for a file; None: for all files."""
        return self.book.at(path)

    def state_of(self, uri: str) -> ScriptState | None:
        """The state of a script, None where nothing was asked of it yet."""
        return self.scripts.at(convert.path_of(uri) or "")

    def touch(self, uri: str) -> ScriptState | None:
        """The state of a script, made on first use: a saved profile is shown, and its saves are followed.

        None where the URI is no local file, or one that is neither there nor open.
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
        """Where a script runs: the innermost workspace folder around it, as in editors, else its own."""
        roots = [convert.path_of(folder.uri) for folder in self.workspace.folders.values()]
        roots.append(self.workspace.root_path)
        around = [root for root in roots if root and Path(root) in Path(path).parents]
        return max(around, key=len, default=os.path.dirname(path))

    def tell_problems(self, path: str | None) -> None:
        """Name the settings of a file that make no sense, each once; their defaults are used."""
        news = self.book.news(path)
        if news:
            self.warn("Skyline settings: " + "; ".join(news))

    def is_training_script(self, path: str) -> bool:
        """Whether a file looks like it trains something, without running it."""
        text = self.texts.current(path)
        return text is not None and training_loop(text) is not None

    def settings_changed(self) -> None:
        """The client or a project's file may say something else: look again, and draw accordingly."""
        self.book.forget()
        for path in [None, *(state.path for state in self.scripts)]:
            self.tell_problems(path)
        self.refresh()

    def profile_changed(self, state: ScriptState) -> None:
        """A script has a new profile, a new error, or went stale: tell the client all that follows."""
        self.saves.follow(state.files())
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
        """The code may differ in another way from what was profiled: tell the client, once the code rests."""
        self.code_news.look(state)

    def measuring(self, state: ScriptState, known: Known) -> None:
        """A run under way has something to show before its profile is there."""
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
        """A file reads differently: what was measured may be out of date, or fit again after an undo."""
        for state in self.scripts.concerned_by(path):
            self.code_changed(state)
            outdated = state.is_stale(self.texts)
            if state.prepared is not None and not outdated and state.changed_since_attempt(self.texts):
                # The code that failed is gone, and what was measured holds for the code that is there.
                state.error = None
            stale = outdated or (state.error is not None and state.prepared is not None)
            if stale != state.stale:
                state.stale = stale
                self.profile_changed(state)
        self.publish_diagnostics()

    def refresh(self) -> None:
        """Have lenses and hints asked for again, and diagnostics brought up to date."""
        self.refresher.lenses()
        self.refresher.hints()
        self.publish_diagnostics()

    def publish_diagnostics(self) -> None:
        """Send the diagnostics of every file where they differ from those the client has."""
        current = diagnostics.by_file(self.scripts, self.texts, self.workspace.position_codec, self.book)
        for path in {*current, *self._published}:
            now = current.get(path, [])
            if now != self._published.get(path, []):
                self.text_document_publish_diagnostics(
                    types.PublishDiagnosticsParams(self.texts.uri(path), now)
                )
        self._published = current

    def warn(self, message: str) -> None:
        """Show the person something that went wrong."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))

    def once(self, message: str) -> None:
        """Tell the person something, the first time that it comes up."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Info, message))

    def report_server_error(self, error: Exception, source: object) -> None:
        """Show the person a fault of ours that no request was there to be answered with; each once."""
        if str(error) not in self._faults:
            self._faults.add(str(error))
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, str(error)))

    def stop_runs(self) -> None:
        """Stop what is being run for anybody, and go on without it."""
        for state in self.scripts:
            self.profiler.cancel(state)
            self.verifier.errand.cancel(state.path)
            self.comparer.errand.cancel(state.path)

    def stop_work(self) -> None:
        """End all runs and watches; safe to call more than once."""
        self.refresher.close()
        self.permission.close()
        self.code_news.close()
        self.verifier.errand.close()
        self.comparer.errand.close()
        if "profiler" in self.__dict__:
            self.profiler.close()
        self.watch.close()

    def shutdown(self) -> None:
        """The connection is over, in whatever way: leave no process behind."""
        self.stop_work()
        super().shutdown()
