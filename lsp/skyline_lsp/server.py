"""The server object: what it remembers, and how it tells the client that something changed."""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from skyline.capture.request import Known
from skyline.report import protocol
from skyline.report.headline import headline_so_far
from skyline.version import __version__
from skyline_lsp import convert, wire
from skyline_lsp.applied import AppliedStack
from skyline_lsp.comparing import Comparer
from skyline_lsp.errand import Errand
from skyline_lsp.features import diagnostics
from skyline_lsp.profiling import Profiler
from skyline_lsp.saves import Saves
from skyline_lsp.settings import Settings
from skyline_lsp.state import Scripts, ScriptState
from skyline_lsp.texts import Texts
from skyline_lsp.training_script import training_loop
from skyline_lsp.verifying import Verifier
from skyline_lsp.watch import FileWatch

logger = logging.getLogger(__name__)


class SkylineServer(LanguageServer):
    """One session with one client. Features read from here; only the event loop's thread writes."""

    def __init__(self) -> None:
        # Whole documents: pygls splits lines at form feeds and other characters where the protocol does not,
        # so that incremental changes would land in the wrong place below one.
        super().__init__(
            "skyline",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            converter_factory=wire.converter,
        )
        self.settings = Settings()
        self.settings_known = asyncio.Event()
        self.texts = Texts()
        self.scripts = Scripts()
        self.applied = AppliedStack()
        self.saves = Saves(self)
        self.verifier = Verifier(Errand(self))
        self.comparer = Comparer(Errand(self))
        self.watch = FileWatch(self.saves.from_disk)
        self.initialization_options: object = None
        self.shutdown_requested = False
        self._published: dict[str, list[types.Diagnostic]] = {}

    @cached_property
    def profiler(self) -> Profiler:
        """Runs the scripts; made on first use, since it needs the running event loop."""
        return Profiler(self, asyncio.get_running_loop())

    def state_of(self, uri: str) -> ScriptState | None:
        """The state of a script, None where nothing was asked of it yet."""
        return self.scripts.at(convert.path_of(uri) or "")

    def touch(self, uri: str) -> ScriptState | None:
        """The state of a script, made on first use: a saved profile is shown, and its saves are followed.

        None where the URI is no local file.
        """
        path = convert.path_of(uri)
        if path is None:
            return None
        known = self.scripts.at(path)
        state = self.scripts.ensure(uri, path)
        if known is None:
            self.watch.add([path])
            self.profiler.restore(state)
        return state

    def is_training_script(self, path: str) -> bool:
        """Whether a file looks like it trains something, without running it."""
        text = self.texts.current(path)
        return text is not None and training_loop(text) is not None

    def profile_changed(self, state: ScriptState) -> None:
        """A script has a new profile, a new error, or went stale: tell the client all that follows."""
        self.watch.add(state.files())
        prepared, error = state.prepared, state.error
        change = protocol.ProfileChanged(
            uri=state.uri,
            profileId=prepared.report.id if prepared else None,
            headline=prepared.headline if prepared else "",
            stale=state.stale,
            error=str(error) if error else None,
            errorLine=error.line or None if error else None,
        )
        self.protocol.notify(protocol.PROFILE_CHANGED, wire.send(change))
        self.refresh()

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
            stale = state.is_stale(self.texts) or (state.error is not None and state.prepared is not None)
            if stale != state.stale:
                state.stale = stale
                self.profile_changed(state)
        self.publish_diagnostics()

    def refresh(self) -> None:
        """Have lenses and hints asked for again, and diagnostics brought up to date."""
        self.refresh_lenses()
        workspace = self.client_capabilities.workspace
        if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        self.publish_diagnostics()

    def refresh_lenses(self) -> None:
        """Have the lenses alone asked for again, as while a run makes progress."""
        workspace = self.client_capabilities.workspace
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def publish_diagnostics(self) -> None:
        """Send the diagnostics of every file where they differ from those the client has."""
        current = diagnostics.by_file(self.scripts, self.texts, self.workspace.position_codec)
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

    def stop_work(self) -> None:
        """End all runs and watches; safe to call more than once."""
        self.verifier.errand.close()
        self.comparer.errand.close()
        if "profiler" in self.__dict__:
            self.profiler.close()
        self.watch.close()

    def shutdown(self) -> None:
        """The connection is over, in whatever way: leave no process behind."""
        self.stop_work()
        super().shutdown()
