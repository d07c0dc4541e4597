"""The life of a session: its settings as they come and change, and its end."""

from __future__ import annotations

import asyncio
import logging

from lsprotocol import types

from skyline_lsp import settings, transport
from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)


def register(server: SkylineServer) -> None:
    """Follow initialize, configuration changes and shutdown."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        loop = asyncio.get_running_loop()
        server.saves.attach(loop)
        transport.stop_on_signals(server, loop)
        server.initialization_options = params.initialization_options
        server.settings = settings.parse(params.initialization_options).settings

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        # The client cannot show a message before it is initialized: parse again for the problems.
        adopt(server, server.initialization_options)
        workspace = server.client_capabilities.workspace
        changes = workspace.did_change_configuration if workspace else None
        if changes and changes.dynamic_registration:
            registration = types.Registration(
                "skyline-configuration",
                types.WORKSPACE_DID_CHANGE_CONFIGURATION,
                types.DidChangeConfigurationRegistrationOptions(section=settings.SECTION),
            )
            await server.client_register_capability_async(types.RegistrationParams([registration]))
        await ask(server)
        server.settings_known.set()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def changed(params: types.DidChangeConfigurationParams) -> None:
        if not await ask(server):
            adopt(server, params.settings)
        server.refresh()

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.shutdown_requested = True
        server.stop_work()


async def ask(server: SkylineServer) -> bool:
    """Fetch the settings from a client that keeps them; False where it does not, or has none for us."""
    workspace = server.client_capabilities.workspace
    if not (workspace and workspace.configuration):
        return False
    item = types.ConfigurationItem(section=settings.SECTION)
    try:
        values = await server.workspace_configuration_async(types.ConfigurationParams([item]))
    except Exception:
        logger.warning("the client did not answer for its configuration", exc_info=True)
        return False
    if not values or values[0] is None:
        return False
    adopt(server, values[0])
    return True


def adopt(server: SkylineServer, value: object) -> None:
    """Use what the client sent; what makes no sense in it is said once and its default used."""
    parsed = settings.parse(value)
    server.settings = parsed.settings
    if parsed.problems:
        server.warn("Skyline settings: " + "; ".join(parsed.problems))
