"""Observes processes that the script spawns with multiprocessing, since they may be the ones that train."""

from __future__ import annotations

import json
import os
import sys

from .. import user_code

_FILE = "spawned.json"


def install(request):
    """Make every process that multiprocessing spawns from now on start with ``begin``.

    This includes multiprocessing's fork server, the default on Linux from Python 3.14 on: it imports the script, and
    its forks inherit the hooks. Processes that the script forks itself inherit the hooks anyway.
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
    """Install the hooks in a spawned process, before it imports the script."""
    try:
        with open(path) as file:
            request = json.load(file)
        import torch  # noqa: F401
    except (OSError, ImportError):
        # The run is over, or this process cannot import torch.
        return
    from ..run import observe
    from .claim import Claim

    observe(request, Claim(request["scratch"]))


def watch_starts():
    """Note the processes that the script starts from now on."""
    sys.addaudithook(_heard)


def started():
    """Command lines of the processes that the script was seen to start."""
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
