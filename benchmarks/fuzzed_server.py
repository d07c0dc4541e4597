"""The language server with one additional request, which returns its documents for the fuzzer to compare."""

from __future__ import annotations

import faulthandler
import gc
import logging
import signal
import sys
from typing import Any

import psutil

from skyline_lsp import transport
from skyline_lsp.server import SkylineServer
from skyline_lsp.session import create_server
from skyline_lsp.stdio import reserve_stdio

STATE = "fuzz/state"


def main() -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    faulthandler.register(signal.SIGUSR1)
    server = create_server()
    process = psutil.Process()

    @server.feature(STATE)
    def state(params) -> dict[str, Any]:
        if params["collect"]:
            gc.collect()
        return {
            "documents": {uri: held(server, uri) for uri in params["uris"]},
            "asked": len(server.protocol._request_futures) + len(server.protocol._result_types),
            "resident_bytes": process.memory_info().rss,
            "threads": process.num_threads(),
            "files": process.num_fds(),
        }

    transport.serve_stdio(server, reserve_stdio())
    return 0 if server.shutdown_requested else 1


def held(server: SkylineServer, uri: str) -> list[Any] | None:
    """Version and text of an open document. None if it is not open."""
    document = server.texts._documents.get(uri)
    if document is None:
        return None
    mark = "\ufeff" if document.text.byte_order_mark else ""
    return [document.version, mark + document.text.text]


if __name__ == "__main__":
    sys.exit(main())
