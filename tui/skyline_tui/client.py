"""The language server as a child process, and the communication with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    JsonRPCResponseMessage,
    default_converter,
)

from skyline.errors import SkylineError
from skyline.report import protocol
from skyline.report.tune import TuneProgress
from skyline.version import __version__
from skyline_tui.messages import (
    FilesWritten,
    FirstFigures,
    Logged,
    Post,
    ProfileMoved,
    Progressed,
    ProgressEnded,
    ServerLost,
    ServerSaid,
    Severity,
    TuningMoved,
)
from skyline_tui.workspace_edit import write_workspace_edit

T = TypeVar("T")
LOG_LINES = 40
LOG_LINE_BYTES = 4000
# The server needs a moment to end a measurement, on a busy machine several seconds.
STOP_AFTER_S = 8.0
FORCE_AFTER_S = 3.0

_SEVERITIES = {
    types.MessageType.Error: Severity.ERROR,
    types.MessageType.Warning: Severity.WARNING,
    types.MessageType.Info: Severity.INFORMATION,
}


class ServerRefused(SkylineError):
    """The server answered a request with an error, or ended before its answer."""


class _Protocol(LanguageClient):
    """The library's client, extended to report the end of the process."""

    on_exit: Callable[[int | None], None] | None = None

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        if self.on_exit is not None:
            self.on_exit(server.returncode)


class Server:
    """A ``skyline lsp`` process: start, requests, stop.

    ``post`` receives the server's notifications as messages. ``settings`` is the answer to the server's request for the
    ``skyline`` section of the configuration.
    """

    def __init__(self, post: Post, settings: Mapping[str, object]) -> None:
        self._post = post
        self._settings = settings
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._titles: dict[int | str, str] = {}
        self._stopping = False
        self._log_task: asyncio.Task[None] | None = None
        self._client = _Protocol("skyline-tui", __version__, converter_factory=_converter)
        self._client.on_exit = self._exited
        self._listen()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs, or if it never started."""
        process = self._client._server
        return process.returncode if process is not None else None

    async def start(self, root: Path) -> None:
        """Start the process and initialise the protocol; raises ServerRefused on failure."""
        # A separate session: a Ctrl+C for the editor that `o` opens must not end the server.
        session = {"start_new_session": True} if sys.platform != "win32" else {}
        await self._client.start_io(*server_command(), **session)
        process = self._client._server
        if process is not None and process.stderr is not None:
            self._log_task = asyncio.create_task(self._read_log(process.stderr))
        folder = types.WorkspaceFolder(uri=root.as_uri(), name=root.name)
        params = types.InitializeParams(
            capabilities=_capabilities(),
            process_id=os.getpid(),
            client_info=types.ClientInfo("skyline-tui", __version__),
            root_uri=folder.uri,
            workspace_folders=[folder],
            # This client saves nothing: saves in another editor appear as changes on disk.
            initialization_options={**self._settings, "followDisk": True},
        )
        await self._answer(self._client.initialize_async(params))
        self._client.initialized(types.InitializedParams())

    async def request(self, method: str, params: object, result: type[T]) -> T:
        """Send a request and decode the answer; raises ServerRefused with the server's reason."""
        answer = await self.request_if_any(method, params, result)
        if answer is None:
            raise ServerRefused(f"The server has no answer to {method}", hint="Profile the script first.")
        return answer

    async def request_if_any(self, method: str, params: object, result: type[T]) -> T | None:
        """Send a request whose answer may be missing."""
        raw = await self._answer(
            self._client.protocol.send_request_async(method, msgspec.to_builtins(params))
        )
        try:
            return None if raw is None else msgspec.convert(raw, result)
        except msgspec.ValidationError as error:
            hint = "The server and the terminal UI have different versions: restart, or reinstall both."
            raise ServerRefused(f"The answer to {method} cannot be read: {error}", hint=hint) from error

    async def execute(self, command: str, uri: str, options: Mapping[str, object] | None = None) -> None:
        """Run one of the server's commands on a script; ``options`` is the command's second argument."""
        arguments: list[Any] = [uri] if options is None else [uri, dict(options)]
        params = types.ExecuteCommandParams(command=command, arguments=arguments)
        await self._answer(self._client.workspace_execute_command_async(params))

    def notify_watched(self, uris: tuple[str, ...]) -> None:
        """Notify the server of files that changed on disk."""
        changes = [types.FileEvent(uri=uri, type=types.FileChangeType.Changed) for uri in uris]
        self._client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes=changes))

    async def stop(self) -> None:
        """End the server: by request first, then by force. No effect if it is not running."""
        process = self._client._server
        if self._stopping or process is None:
            return
        self._stopping = True
        shutdown = asyncio.ensure_future(self._answer(self._client.shutdown_async(None)))
        await asyncio.wait({shutdown}, timeout=STOP_AFTER_S)
        with contextlib.suppress(RuntimeError, OSError):
            self._client.exit(None)
        with contextlib.suppress(ProcessLookupError):
            for force in (process.terminate, process.kill):
                try:
                    await asyncio.wait_for(process.wait(), FORCE_AFTER_S)
                except asyncio.TimeoutError:
                    force()
        await self._client.stop()
        await asyncio.gather(shutdown, return_exceptions=True)
        if self._log_task is not None:
            await self._log_task

    async def _answer(self, pending: Any) -> Any:
        try:
            # Shielded: the library cannot handle an answer to a cancelled request.
            return await asyncio.shield(pending)
        except JsonRpcException as error:
            raise ServerRefused(str(error.message or error)) from error
        except (RuntimeError, OSError) as error:
            # The library raises this for every open request when the process ends.
            raise ServerRefused(str(error), hint="\n".join(self._log)) from error

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        # An unread pipe fills up and stops the server; its last lines explain a crash.
        # Not line by line: a very long line of the script must not stop the reading.
        rest = b""
        while piece := await stream.read(1 << 16):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-LOG_LINE_BYTES:]
            for line in lines:
                text = line[-LOG_LINE_BYTES:].decode("utf-8", "replace").rstrip()
                self._log.append(text)
                self._post(Logged(text))

    def _exited(self, exit_code: int | None) -> None:
        if not self._stopping:
            self._post(ServerLost(exit_code, "\n".join(self._log)))

    def _listen(self) -> None:
        feature = self._client.feature

        # No annotations: the library would pass the client itself for a parameter of a wide type.
        @feature(protocol.PROFILE_CHANGED)
        def profile_changed(params) -> None:
            self._post(ProfileMoved(msgspec.convert(params, protocol.ProfileChanged)))

        @feature(protocol.MEASURING)
        def measuring(params) -> None:
            self._post(FirstFigures(msgspec.convert(params, protocol.Measuring)))

        @feature(protocol.TUNING)
        def tuning(params) -> None:
            self._post(TuningMoved(msgspec.convert(params, TuneProgress)))

        @feature(types.WORKSPACE_APPLY_EDIT)
        def apply_edit(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            try:
                written = write_workspace_edit(params.edit)
            except SkylineError as error:
                return types.ApplyWorkspaceEditResult(applied=False, failure_reason=str(error))
            self._post(FilesWritten(written))
            return types.ApplyWorkspaceEditResult(applied=True)

        @feature(types.WORKSPACE_CONFIGURATION)
        def configuration(params: types.ConfigurationParams) -> list[object]:
            return [_section(self._settings, item.section or "") for item in params.items]

        @feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def create_progress(params: types.WorkDoneProgressCreateParams) -> None:
            self._titles[params.token] = ""

        @feature(types.PROGRESS)
        def progress(params: types.ProgressParams) -> None:
            self._progressed(params)

        @feature(types.WINDOW_SHOW_MESSAGE)
        def show_message(params: types.ShowMessageParams) -> None:
            self._post(ServerSaid(params.message, _SEVERITIES.get(params.type, Severity.INFORMATION)))

        @feature(types.WINDOW_LOG_MESSAGE)
        def log_message(params: types.LogMessageParams) -> None:
            self._log.append(params.message)
            self._post(Logged(params.message))

        for method in (types.CLIENT_REGISTER_CAPABILITY, types.CLIENT_UNREGISTER_CAPABILITY):
            feature(method)(_nothing)
        for method in (
            types.WORKSPACE_CODE_LENS_REFRESH,
            types.WORKSPACE_INLAY_HINT_REFRESH,
            types.WORKSPACE_DIAGNOSTIC_REFRESH,
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
        ):
            feature(method)(_nothing)

    def _progressed(self, params: types.ProgressParams) -> None:
        raw = params.value if isinstance(params.value, Mapping) else msgspec.to_builtins(params.value)
        value = msgspec.convert(raw, _ProgressValue)
        if value.kind == "begin":
            self._titles[params.token] = value.title
        if value.kind == "end":
            self._titles.pop(params.token, None)
            self._post(ProgressEnded(value.message or ""))
            return
        fraction = None if value.percentage is None else value.percentage / 100
        self._post(Progressed(self._titles.get(params.token, ""), value.message or "", fraction))


class _ProgressValue(msgspec.Struct):
    kind: str
    title: str = ""
    message: str | None = None
    percentage: float | None = None


def _nothing(params) -> None:
    """Ignore a message that would change nothing on this screen."""


def _section(settings: Mapping[str, object], section: str) -> object:
    """The part of the settings under ``section``, such as ``skyline.profile``."""
    value: object = {"skyline": settings}
    for name in section.split(".") if section else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _converter() -> Converter:
    """The library's converter; custom methods stay plain JSON for msgspec to decode."""
    converter = default_converter()
    for message in (JsonRPCRequestMessage, JsonRPCResponseMessage, JsonRPCNotification):
        converter.register_structure_hook(message, lambda data, kind: kind(**data))
    return converter


def _capabilities() -> types.ClientCapabilities:
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
        window=types.WindowClientCapabilities(work_done_progress=True),
        workspace=types.WorkspaceClientCapabilities(
            apply_edit=True,
            configuration=True,
            workspace_folders=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(
                document_changes=True, failure_handling=types.FailureHandlingKind.Transactional
            ),
            execute_command=types.ExecuteCommandClientCapabilities(),
        ),
    )


# Before 3.11 there is no -P: remove the empty entry for the working directory by hand. Otherwise a file next to the
# script with the name of a standard module would be imported in its place.
_BOOTSTRAP = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "from skyline_lsp.main import main; sys.exit(main([]))"
)


def server_command() -> tuple[str, ...]:
    """Program and arguments of the server, which communicates over its standard input and output."""
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", "-m", "skyline_lsp")
    return (sys.executable, "-c", _BOOTSTRAP)
