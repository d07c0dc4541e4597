"""The connection to the client, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading

from pygls.io_ import run_async

from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)


def serve_stdio(server: SkylineServer) -> None:
    """Serve over standard input and output, which belong to the protocol alone from here on.

    A stray ``print``, ours, a library's or a child's, goes to standard error, and nothing else can read
    what the client sends.
    """
    reader = os.fdopen(os.dup(0), "rb")
    writer = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    server.start_io(reader, writer)


def serve_tcp(server: SkylineServer, port: int) -> None:
    """Serve the first client that connects to the loopback port, and no other; OSError where it is taken."""
    stop = threading.Event()

    async def serve() -> None:
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result((reader, writer))

        listener = await asyncio.start_server(accept, "127.0.0.1", port)
        address = listener.sockets[0].getsockname()
        print(f"skyline lsp: listening on {address[0]}:{address[1]}", file=sys.stderr, flush=True)
        reader, writer = await connected
        listener.close()
        server.protocol.set_writer(writer)  # pyright: ignore[reportArgumentType]
        await run_async(stop, reader, server.protocol, logger, server.report_server_error)

    try:
        asyncio.run(serve())
    except (KeyboardInterrupt, SystemExit, ConnectionError):
        pass
    finally:
        server.shutdown()


def stop_on_signals(server: SkylineServer, loop: asyncio.AbstractEventLoop) -> None:
    """Have SIGTERM, SIGINT and SIGHUP end the children first.

    The thread that reads standard input cannot be interrupted, so that the process is left from here.
    """

    def leave(number: int) -> None:
        server.stop_work()
        os._exit(128 + number)

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, leave, number)
        except (NotImplementedError, RuntimeError, ValueError):
            logger.debug("%s cannot be handled here", name)
