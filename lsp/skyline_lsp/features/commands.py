"""The commands: profile, cancel, show the report, export it. Each says in its result what it did."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import CommandResult
from skyline_lsp import convert, exporting, wire
from skyline_lsp.exporting import ExportOptions
from skyline_lsp.features.simulate import profiled
from skyline_lsp.options import ProfileOptions
from skyline_lsp.server import SkylineServer

_SETTINGS_TIMEOUT_S = 2.0


def register(server: SkylineServer) -> None:
    """Answer ``workspace/executeCommand``; the first argument is always the script's URI."""
    # The parameters bear no annotations, since pygls would take an annotated one for the server itself.

    @server.command(protocol.COMMAND_PROFILE)
    async def profile(*arguments) -> Any:
        # A client may ask for a run before it has been asked for its settings.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.settings_known.wait(), _SETTINGS_TIMEOUT_S)
        return _answer(lambda: _profile(server, _uri(arguments), _options(arguments, ProfileOptions)))

    @server.command(protocol.COMMAND_CANCEL)
    def cancel(*arguments) -> Any:
        state = server.state_of(_uri(arguments))
        stopped = state is not None and (
            server.profiler.cancel(state)
            | server.verifier.errand.cancel(state.path)
            | server.comparer.errand.cancel(state.path)
        )
        return wire.send(CommandResult("cancelled" if stopped else "idle"))

    @server.command(protocol.COMMAND_SHOW_REPORT)
    async def show_report(*arguments) -> Any:
        try:
            return wire.send(await _show_report(server, _uri(arguments)))
        except SkylineError as error:
            raise wire.failed(error) from error

    @server.command(protocol.COMMAND_EXPORT)
    def export(*arguments) -> Any:
        return _answer(lambda: _export(server, _uri(arguments), _options(arguments, ExportOptions)))


def _profile(server: SkylineServer, uri: str, options: ProfileOptions | None) -> CommandResult:
    state = server.touch(uri)
    if state is None:
        hint = "Save it as a file first: a script runs from its own folder."
        raise UsageError(f"{uri} is not a file on this machine", hint=hint)
    return CommandResult(server.profiler.start(state, options))


async def _show_report(server: SkylineServer, uri: str) -> CommandResult:
    state = profiled(server, uri)
    assert state.prepared is not None
    folder = Path(tempfile.gettempdir()) / "skyline-reports"
    # One file per profile: showing the report again brings up the same page.
    path = folder / f"{Path(state.path).stem}-{state.prepared.report.id}.html"
    exporting.write(state.prepared, "html", path)
    window = server.client_capabilities.window
    if window and window.show_document and window.show_document.support:
        target = types.ShowDocumentParams(uri=convert.uri_of(str(path)), external=True, take_focus=True)
        shown = await server.window_show_document_async(target)
        if shown.success:
            return CommandResult("shown", path=str(path))
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, f"The report is in {path}"))
    return CommandResult("written", path=str(path))


def _export(server: SkylineServer, uri: str, options: ExportOptions | None) -> CommandResult:
    options = options or ExportOptions()
    state = profiled(server, uri)
    assert state.prepared is not None
    script = Path(state.path)
    path = script.parent / (options.path or exporting.default_name(script, options.format))
    exporting.write(state.prepared, options.format, path)
    return CommandResult("written", path=str(path))


def _answer(action: Any) -> Any:
    try:
        return wire.send(action())
    except SkylineError as error:
        raise wire.failed(error) from error


def _uri(arguments: tuple[Any, ...]) -> str:
    if not arguments or not isinstance(arguments[0], str):
        raise JsonRpcInvalidParams("the first argument must be the URI of a script")
    return arguments[0]


def _options(arguments: tuple[Any, ...], kind: type[wire.Params]) -> wire.Params | None:
    given = arguments[1] if len(arguments) > 1 else None
    return None if given is None else wire.receive(given, kind)
