"""The commands: profile, cancel, clear, what-if, show report, export. The result of each states its outcome.

A command may be sent twice: if there is nothing left to do, its result is ``idle`` or ``running``.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from lsprotocol import types

from skyline import units
from skyline.report import protocol
from skyline.report.protocol import CommandResult, QuestionOptions, VerifyOptions, VerifyParams
from skyline.trace import store
from skyline.whatif.question import Estimate, Question
from skyline_lsp import convert, exported_file, wire
from skyline_lsp.entry_script import script_for
from skyline_lsp.exported_file import ExportOptions
from skyline_lsp.features.simulate import profiled
from skyline_lsp.features.verify import verification
from skyline_lsp.options import ProfileOptions
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState
from skyline_lsp.wire import options, script_uri


def register(server: SkylineServer) -> None:
    """Answer ``workspace/executeCommand``. The first argument is the script's URI."""
    # The parameters have no annotations: pygls would pass the server itself for an annotated one.

    @server.command(protocol.COMMAND_PROFILE)
    async def profile(*arguments) -> Any:
        await server.await_settings()
        uri, asked = script_uri(server, arguments), options(arguments, ProfileOptions)
        with wire.refusing():
            return wire.send(await _profile(server, uri, asked))

    @server.command(protocol.COMMAND_CANCEL)
    def cancel(*arguments) -> Any:
        state = server.state_of(script_uri(server, arguments))
        return wire.send(CommandResult("cancelled" if state and _stop(server, state) else "idle"))

    @server.command(protocol.COMMAND_CLEAR)
    def clear(*arguments) -> Any:
        state = server.state_of(script_uri(server, arguments))
        if state is None or not (state.prepared or state.error or state.job):
            return wire.send(CommandResult("idle"))
        _stop(server, state)
        state.clear()
        server.profile_changed(state)
        return wire.send(CommandResult("cleared"))

    @server.command(protocol.COMMAND_USE_LATER)
    def use_later(*arguments) -> Any:
        with wire.refusing():
            return wire.send(_use_later(server, script_uri(server, arguments)))

    @server.command(protocol.COMMAND_WHATIF)
    def what_if(*arguments) -> Any:
        asked = options(arguments, QuestionOptions) or QuestionOptions()
        with wire.refusing():
            return wire.send(_what_if(server, script_uri(server, arguments), asked))

    @server.command(protocol.COMMAND_VERIFY)
    async def verify(*arguments) -> Any:
        asked = options(arguments, VerifyOptions) or VerifyOptions()
        uri = script_uri(server, arguments)
        params = VerifyParams(uri, asked.batchSize, asked.whatifs, rounds=asked.rounds, minutes=asked.minutes)
        with wire.refusing():
            return wire.send(await verification(server, params))

    @server.command(protocol.COMMAND_SHOW_REPORT)
    async def show_report(*arguments) -> Any:
        with wire.refusing():
            return wire.send(await _show_report(server, script_uri(server, arguments)))

    @server.command(protocol.COMMAND_EXPORT)
    def export(*arguments) -> Any:
        asked = options(arguments, ExportOptions) or ExportOptions()
        with wire.refusing():
            return wire.send(_export(server, script_uri(server, arguments), asked))


async def _profile(server: SkylineServer, uri: str, asked: ProfileOptions | None) -> CommandResult:
    server.require_cells(uri)
    server.require_trust()
    state = await script_for(server, uri)
    if state is None:
        return CommandResult("idle")
    return CommandResult(server.profiler.start(state, asked), script=state.uri)


def _use_later(server: SkylineServer, uri: str) -> CommandResult:
    """Show the measurement that was set aside because the machine was busy."""
    state = profiled(server, uri)
    path = store.put_forward(Path(state.path))
    if path is None:
        return CommandResult("idle")
    server.profiler.restore(state)
    return CommandResult("shown", path=str(path))


def _stop(server: SkylineServer, state: ScriptState) -> bool:
    return (
        server.profiler.cancel(state)
        | server.verifier.task.cancel(state.path)
        | server.comparer.task.cancel(state.path)
        | server.planner.task.cancel(state.path)
        | server.tuner.task.cancel(state.path)
    )


def _what_if(server: SkylineServer, uri: str, asked: QuestionOptions) -> Estimate:
    question = Question.parse(asked.batchSize, asked.whatifs)
    state = profiled(server, uri)
    found, now = state.estimate(question), state.profiled().report.iteration_ms.value
    delta = units.format_ms_delta(found.iteration_ms.value - now)
    words = f"{found.title}: predicted {units.format_ms_interval(found.iteration_ms)} per iteration ({delta})"
    if not found.applicable:
        words = f"{found.title}: does not apply. {found.reason or ''}"
    # An editor without a Skyline plug-in does not show command results.
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, words))
    return found


async def _show_report(server: SkylineServer, uri: str) -> CommandResult:
    state = profiled(server, uri)
    prepared = state.profiled()
    folder = Path(tempfile.gettempdir()) / "skyline-reports"
    # One file per profile: showing the report again opens the same page.
    path = folder / f"{Path(state.path).stem}-{prepared.report.id}.html"
    exported_file.write(prepared, "html", path)
    window = server.client_capabilities.window
    if window and window.show_document and window.show_document.support:
        target = types.ShowDocumentParams(uri=convert.uri_of(str(path)), external=True, take_focus=True)
        with contextlib.suppress(Exception):
            if (await server.window_show_document_async(target)).success:
                return CommandResult("shown", path=str(path))
    server.window_show_message(
        types.ShowMessageParams(types.MessageType.Info, f"The report was written to {path}")
    )
    return CommandResult("written", path=str(path))


def _export(server: SkylineServer, uri: str, asked: ExportOptions) -> CommandResult:
    state = profiled(server, uri)
    script = Path(state.path)
    path = script.parent / (asked.path or exported_file.default_name(script, asked.format))
    exported_file.write(state.profiled(), asked.format, path)
    return CommandResult("written", path=str(path))
