"""The connection to the client, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError
from typing import BinaryIO

from pygls.io_ import StdoutWriter

from skyline_lsp.framing import Frames
from skyline_lsp.server import SkylineServer

logger = logging.getLogger(__name__)

_PIECE = 1 << 16
_PIECES_AHEAD = 8


def serve_stdio(server: SkylineServer) -> None:
    """Serve over standard input and output, which belong to the protocol alone from here on.

    A stray ``print``, ours, a library's or a child's, goes to standard error, and nothing else can read
    what the client sends.
    """
    source = os.dup(0)
    writer = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(server, source, writer)


def serve(server: SkylineServer, source: int, writer: BinaryIO) -> None:
    """Serve what comes in on a file descriptor, until it ends or the client takes its leave."""
    server.protocol.set_writer(StdoutWriter(writer))
    _run(server, _conversation(server, _pieces(source)))


def serve_tcp(server: SkylineServer, port: int) -> None:
    """Serve the first client that connects to the loopback port, and no other; OSError where it is taken."""

    async def meet() -> None:
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
        await _conversation(server, _received(reader))

    _run(server, meet())


def _run(server: SkylineServer, conversation: Coroutine[None, None, None]) -> None:
    try:
        asyncio.run(conversation)
    except (KeyboardInterrupt, SystemExit, ConnectionError):
        pass
    finally:
        server.shutdown()


async def _conversation(server: SkylineServer, pieces: AsyncIterator[bytes]) -> None:
    frames = Frames()
    async for piece in pieces:
        for body in frames.feed(piece):
            if not server.protocol.receive(body):
                frames.broken(body)
            # A client that sends many at once must not hold up what is to be done between two messages.
            await asyncio.sleep(0)


async def _received(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_PIECE):
        yield piece


async def _pieces(source: int) -> AsyncIterator[bytes]:
    """What comes in on a file descriptor, read on a thread of its own: work elsewhere cannot hold it up."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue(_PIECES_AHEAD)

    def read() -> None:
        piece = b"more"
        while piece:
            try:
                piece = os.read(source, _PIECE)
            except OSError as error:
                logger.warning("the client cannot be read any more: %s", error)
                piece = b""
            try:
                asyncio.run_coroutine_threadsafe(arrived.put(piece), loop).result()
            except (RuntimeError, CancelledError):
                return

    threading.Thread(target=read, name="client", daemon=True).start()
    while piece := await arrived.get():
        yield piece


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
