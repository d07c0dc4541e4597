"""Processes that the script spawns with multiprocessing: they too can be the ones that train."""

from __future__ import annotations

import json
import os
import sys

from .. import user_code

_FILE = "spawned.json"


def install(request):
    """Have every process that multiprocessing spawns from now on begin with ``begin``.

    So does the server that multiprocessing forks from, the default on Linux from Python 3.14 on: it imports the script,
    and what it forks inherits the hooks. Those that the script forks itself have them as they are.
    """
    from multiprocessing import spawn, util

    watch_starts()
    path = os.path.join(request["scratch"], _FILE)
    entry = os.path.join(user_code.FOLDER, "__main__.py")
    with open(path, "w") as file:
        json.dump(request, file)
    first = f"import runpy; runpy.run_path({entry!r})['begin_spawned']({path!r}); "
    command_line, start = spawn.get_command_line, util.spawnv_passfds

    def observed_command_line(**kwds):
        return _after(first, command_line(**kwds))

    def observed_start(program, words, descriptors):
        server = isinstance(words[-1], str) and "multiprocessing.forkserver" in words[-1]
        return start(program, _after(first, words) if server else words, descriptors)

    spawn.get_command_line, util.spawnv_passfds = observed_command_line, observed_start


def _after(first, words):
    """A command line whose program, if it is given with ``-c``, runs after ``first``."""
    words = list(words)
    if "-c" in words:
        words[words.index("-c") + 1] = first + words[words.index("-c") + 1]
    return words


def begin(path):
    """In the spawned process, before it imports the script: the same hooks as in the one that spawned it."""
    try:
        with open(path) as file:
            request = json.load(file)
        import torch  # noqa: F401
    except (OSError, ImportError):
        # The run is over, or this process has no use for torch.
        return
    from ..run import observe
    from .claim import Claim

    observe(request, Claim(request["scratch"]))


def watch_starts():
    """Note from now on which processes the script starts."""
    sys.addaudithook(_heard)


def started():
    """Command lines of the processes that were started, as far as they were seen."""
    return list(_STARTED)


_STARTED = []
_MOST_STARTED = 8
_FORK = "a fork of the script"


def _heard(event, arguments):
    if event == "subprocess.Popen" and len(_STARTED) < _MOST_STARTED:
        command = arguments[1]
        words = command if isinstance(command, (list, tuple)) else [command]
        _STARTED.append(" ".join(os.fsdecode(word) for word in words)[:200])
    elif event == "os.fork" and _FORK not in _STARTED:
        _STARTED.append(_FORK)
