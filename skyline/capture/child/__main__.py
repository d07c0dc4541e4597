"""Entry point of the capture child: ``python <this file> ADDRESS``. All other parameters arrive over the channel.

``python <this file> --warm DESCRIPTOR`` starts the resident process, whose forks continue as if started directly. With
``--plain`` it does not import modules ahead of the scripts.
``--follow FILE`` starts another rank of a distributed script.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

PACKAGE = "_skyline_child"


def load_package() -> None:
    """Make this folder importable under a private name, and remove it from ``sys.path``."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != folder]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)


def begin_spawned(path: str) -> None:
    """Entry point in a process that the script spawned."""
    load_package()
    importlib.import_module(PACKAGE + ".ranks.spawned").begin(path)


if __name__ == "__main__":
    load_package()
    if sys.argv[1] == "--follow":
        importlib.import_module(PACKAGE + ".ranks.followers").follow(sys.argv[2])
    if sys.argv[1] == "--warm":
        warm = importlib.import_module(PACKAGE + ".warm")
        address, key = warm.serve(int(sys.argv[2]), ahead=warm.PLAIN not in sys.argv)
    else:
        address, key = sys.argv[1], bytes.fromhex(os.environ.pop("SKYLINE_CHANNEL_KEY"))
        importlib.import_module(PACKAGE + ".subreaper").continue_below(())
    importlib.import_module(PACKAGE + ".run").main(address, key)
