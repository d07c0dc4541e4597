"""The command line that starts the language server in this interpreter."""

from __future__ import annotations

import sys

# Before 3.11 there is no -P: the empty entry that stands for the working directory is taken out by hand, so
# that a script's neighbour named like a standard module is not imported in its place.
_BOOTSTRAP = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "from skyline_lsp.main import main; sys.exit(main([]))"
)


def server_command() -> tuple[str, ...]:
    """Program and arguments; the server speaks on its standard input and output."""
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", "-m", "skyline_lsp")
    return (sys.executable, "-c", _BOOTSTRAP)
