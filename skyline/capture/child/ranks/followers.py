"""The other ranks of a distributed script: they run the same program as the observed rank, without observation."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

from .. import user_code

_FILE = "follow.json"
_GRACE_S = 2.0
_FIRST_RANK = ("--local_rank=0", "--local-rank=0")


def start(request, channel):
    """Start ranks 1 and up in this process group, so that they end with this process; failures are reported."""
    path = os.path.join(request["scratch"], _FILE)
    with open(path, "w") as file:
        json.dump(request, file)
    entry = os.path.join(user_code.FOLDER, "__main__.py")
    for rank in range(1, request["ranks"]):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), ROLE_RANK=str(rank))
        process = subprocess.Popen([sys.executable, entry, "--follow", path], env=environment)
        threading.Thread(target=_watch, args=(process, rank, channel), daemon=True).start()


def first_problem(request):
    """The failure of another rank, after a short wait for its report; None if there is none."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        for rank in range(1, request["ranks"]):
            try:
                with open(_problem_file(request, rank)) as file:
                    problem = json.load(file)
            except (OSError, ValueError):
                continue
            return dict(problem, message=f"Rank {rank}: {problem['message']}")
        if time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def _problem_file(request, rank):
    return os.path.join(request["scratch"], f"rank-{rank}.json")


def follow(path):
    """Run the script as one of the other ranks, and exit."""
    with open(path) as file:
        request = json.load(file)
    from ..program import compile_script, execute
    from ..run import protect

    request["arguments"] = own_arguments(request["arguments"])
    code, problem = compile_script(request)
    if problem is None:
        protect(request)
        problem = execute(request, code)
    if problem is not None:
        partial = _problem_file(request, "partial-" + os.environ["RANK"])
        with open(partial, "w") as file:
            json.dump(problem, file)
        os.rename(partial, _problem_file(request, os.environ["RANK"]))
        sys.stderr.write(problem["traceback"] or problem["message"] + "\n")
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0 if problem is None else 1)


def own_arguments(arguments):
    """The arguments of this rank: launchers such as deepspeed give each process its own number."""
    own = os.environ["LOCAL_RANK"]
    return [f"{word[:-1]}{own}" if word in _FIRST_RANK else word for word in arguments]


def _watch(process, rank, channel):
    status = process.wait()
    if status == 0:
        return
    # The observed rank fails too when another rank is gone, but with the less helpful error of its collective.
    time.sleep(2 * _GRACE_S)
    ended = f"signal {-status}" if status < 0 else f"status {status}"
    channel.send(
        "failed",
        boundaries=0,
        kind="rank",
        message=f"Rank {rank} of the script ended with {ended}",
        traceback="",
        file="",
        line=0,
    )
