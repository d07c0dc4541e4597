"""The connection to the client and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError
from pathlib import Path

from pygls.io_ import StdoutWriter

from skyline.cli.streams import say
from skyline.lazy_dataclass import dataclass
from skyline_lsp.admission import AccessToken, Doorway, NotAdmitted, token_in
from skyline_lsp.frames import Frames
from skyline_lsp.greeting import Greeting
from skyline_lsp.server import SkylineServer
from skyline_lsp.stdio import Stdio

logger = logging.getLogger(__name__)

_PIECE = 1 << 16
_PIECES_AHEAD = 8
_PATIENCE_S = 10.0
"""Time limit for the first message. A client on the same machine sends it within milliseconds."""
_MOST_WAITING = 16
"""Maximum number of connections without a first message. Further connections are closed at once."""


def serve_stdio(server: SkylineServer, stdio: Stdio, greeting: Greeting | None = None) -> None:
    """Serve over the reserved standard input and output, until the end of the input or the client's ``exit``.

    ``greeting`` has read the first message, and may have answered it.
    """
    server.protocol.set_writer(StdoutWriter(stdio.writer))
    server.protocol.greeting = greeting
    _run(server, _conversation(server, _pieces(stdio.source, greeting)))


def serve_tcp(server: SkylineServer, port: int, token_file: Path | None = None) -> None:
    """Serve the first client that sends the token on the loopback port, and no other client.

    Raises OSError if the port is taken, TokenUnusable if no token can be read or written.
    """

    async def converse() -> None:
        # The token is needed only until a client is admitted.
        with token_in(token_file) as token:
            client = await _admitted(port, token)
        server.protocol.set_writer(client.writer)  # pyright: ignore[reportArgumentType]
        await _conversation(server, client.pieces())

    _run(server, converse())


async def _admitted(port: int, token: AccessToken) -> _Client:
    found: asyncio.Future[_Client] = asyncio.get_running_loop().create_future()
    waiting: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if found.done() or len(waiting) >= _MOST_WAITING:
            writer.close()
            return
        waiting.add(writer)
        try:
            data = await asyncio.wait_for(_introduction(reader, writer, token.text), _PATIENCE_S)
        except asyncio.TimeoutError:
            data = None
            logger.warning("closed a connection that sent no first message within %g s", _PATIENCE_S)
        waiting.discard(writer)
        if data is None or found.done():
            writer.close()
        else:
            found.set_result(_Client(reader, writer, data))

    listener = await asyncio.start_server(accept, "127.0.0.1", port)
    address = listener.sockets[0].getsockname()
    where = f"{address[0]}:{address[1]}, token in {token.file}"
    say(f"skyline lsp: listening on {where}")
    client = await found
    listener.close()
    for other in waiting:
        other.close()
    return client


@dataclass(frozen=True, slots=True)
class _Client:
    """An admitted connection with the bytes received so far."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    introduction: bytes

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self.introduction
        while piece := await self.reader.read(_PIECE):
            yield piece


async def _introduction(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str
) -> bytes | None:
    """Read a client's first message, which must contain the token.

    Returns the bytes received, without the token. None if the client was not admitted: close the connection.
    """
    doorway = Doorway(token)
    try:
        while piece := await reader.read(_PIECE):
            data = doorway.feed(piece)
            if data is not None:
                return data
    except NotAdmitted as reason:
        logger.warning("closed a connection: %s", reason)
        writer.write(reason.answer)
    except ConnectionError as error:
        logger.warning("a connection was lost: %s", error)
    return None


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
            # Let other tasks run between two messages of a client that sends many at once.
            await asyncio.sleep(0)


async def _pieces(source: int, greeting: Greeting | None) -> AsyncIterator[bytes]:
    """Bytes from a file descriptor, read on a separate thread so that other work cannot delay reading."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes] = asyncio.Queue(_PIECES_AHEAD)

    def read() -> None:
        piece = b"more"
        waiting = b"" if greeting is None else greeting.wait()
        while piece:
            try:
                piece, waiting = waiting or os.read(source, _PIECE), b""
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
    """Make SIGTERM, SIGINT and SIGHUP end the child processes before this process.

    The thread that reads standard input cannot be interrupted, so the handler exits the process itself.
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
