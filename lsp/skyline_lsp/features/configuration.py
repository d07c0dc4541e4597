"""Life cycle of a session: its settings, workspace trust and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from lsprotocol import types

from skyline.report import protocol
from skyline.report.protocol import ConfigParams, ConfigResult, TrustParams
from skyline.settings import pyproject
from skyline.settings.model import SECTION
from skyline.trace import store
from skyline_lsp import convert, transport, wire
from skyline_lsp.options import InitializationOptions, ProfileOptions
from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)


def register(server: SkylineServer) -> None:
    """Handle initialize, configuration changes, trust and shutdown. Answer ``skyline/config``."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        loop = asyncio.get_running_loop()
        server.saves.attach(loop)
        transport.stop_on_signals(server, loop)
        server.client_name = params.client_info.name if params.client_info else ""
        introduced(server, params.initialization_options)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        # The client cannot show messages before it is initialized.
        server.tell_problems(None)
        await _register(server)
        await ask(server)
        server.settings_known.set()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(params: types.DidChangeConfigurationParams) -> None:
        if not await ask(server) and params.settings is not None:
            adopt(server, {"": params.settings})

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        await ask(server)

    @server.feature(protocol.TRUST)
    def trust(params: wire.Json) -> None:
        server.book.trusted = wire.receive(params, TrustParams).trusted
        if not server.trusted:
            server.stop_runs()
        server.settings_changed()

    @server.feature(protocol.CONFIG)
    def config(params: wire.Json) -> Any:
        uri = wire.receive(params, ConfigParams).uri
        resolved = server.book.resolved(convert.path_of(uri) if uri else None)
        return wire.send(ConfigResult(resolved.entries, resolved.problems, server.trusted))

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.shutdown_requested = True
        server.stop_work()


def introduced(server: SkylineServer, options: object) -> None:
    """Apply the client's initialization options: settings and options of this session.

    A ``trusted`` value that is neither a boolean nor null counts as not trusted.
    """
    given = options if isinstance(options, Mapping) else {}
    own = given.get(SECTION, given) if isinstance(given.get(SECTION, given), Mapping) else given
    trusted = given.get("trusted", own.get("trusted", True))
    server.book.trusted = trusted is True or trusted is None
    try:
        warm = msgspec.convert(own.get("warmStart", True), bool)
    except msgspec.ValidationError:
        warm = InitializationOptions().warmStart
    server.warm_start = warm
    server.kept_options = _kept_options(own.get("scripts"))
    server.saves.follows_disk = own.get("followDisk") is True
    server.book.at_start(options)


def _kept_options(given: object) -> dict[str, ProfileOptions]:
    """The last profile options by script path. Invalid ones are dropped: the client may have stored old ones."""
    kept: dict[str, ProfileOptions] = {}
    for uri, options in given.items() if isinstance(given, Mapping) else ():
        path = convert.path_of(uri) if isinstance(uri, str) else None
        if path is not None:
            with contextlib.suppress(msgspec.ValidationError):
                kept[path] = msgspec.convert(options, ProfileOptions)
    return kept


async def ask(server: SkylineServer) -> bool:
    """Request the settings from the client. Returns False if it does not support that or has none."""
    workspace = server.client_capabilities.workspace
    if not (workspace and workspace.configuration):
        return False
    folders = [folder.uri for folder in server.workspace.folders.values()]
    # A single folder needs no scope of its own.
    scopes = folders if len(folders) > 1 else []
    items = [types.ConfigurationItem(section=SECTION)]
    items += [types.ConfigurationItem(scope_uri=scope, section=SECTION) for scope in scopes]
    try:
        values = await server.workspace_configuration_async(types.ConfigurationParams(items))
    except Exception:
        logger.warning("the client did not answer the request for its configuration", exc_info=True)
        return False
    places = ["", *(convert.path_of(scope) or "" for scope in scopes)]
    known = {place: value for place, value in zip(places, values or (), strict=False) if value is not None}
    if not known:
        return False
    adopt(server, known)
    return True


def adopt(server: SkylineServer, values: Mapping[str, object]) -> None:
    """Use the client's settings by folder. Invalid ones are reported once and their defaults apply."""
    server.book.from_client(values)
    server.settings_changed()


async def _register(server: SkylineServer) -> None:
    """Register for changes of settings and of files written by other programs, if the client supports that."""
    workspace = server.client_capabilities.workspace
    wanted: list[types.Registration] = []
    changes = workspace.did_change_configuration if workspace else None
    if changes and changes.dynamic_registration:
        section = types.DidChangeConfigurationRegistrationOptions(section=SECTION)
        method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
        wanted.append(types.Registration("skyline-configuration", method, section))
    files = workspace.did_change_watched_files if workspace else None
    if files and files.dynamic_registration:
        globs = (f"**/{store.FOLDER}/*{store.SUFFIX}", f"**/{pyproject.NAME}")
        watchers = types.DidChangeWatchedFilesRegistrationOptions(
            [types.FileSystemWatcher(glob) for glob in globs]
        )
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        wanted.append(types.Registration("skyline-files", method, watchers))
    if wanted:
        try:
            await server.client_register_capability_async(types.RegistrationParams(wanted))
        except Exception:
            logger.warning("the client rejected the registrations", exc_info=True)
