"""``skyline receive``: the part of ``skyline profile --host`` that runs on the host, started over ssh."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from skyline.cli.capture_options import terminable
from skyline.cli.command_line import parser
from skyline.errors import Cancelled, ExitCode, UsageError
from skyline.hosts.messages import Answer, Order, Outcome, receive, send
from skyline.hosts.project_copy import ProjectCopy

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_END_TIMEOUT_S = 20.0
"""Time limit for the orderly end of a run after its connection was lost."""


def make_parser() -> argparse.ArgumentParser:
    return parser(
        "receive",
        "",
        "Take a project and profile it: the other end of skyline profile --host, which\n"
        "starts this command over ssh. It is not for use by hand.",
    )


def run(arguments: Sequence[str]) -> int:
    make_parser().parse_args(arguments)
    if sys.stdin.isatty():
        raise UsageError(
            "This command is started over ssh by another machine",
            hint="On that machine: skyline profile --host HOST SCRIPT",
        )
    incoming, outgoing = _own_streams()
    try:
        with terminable():
            return _serve(incoming, outgoing)
    except (EOFError, msgspec.DecodeError) as error:
        raise Cancelled("the connection ended") from error


def _serve(incoming: IO[bytes], outgoing: IO[bytes]) -> int:
    order = receive(incoming, Order)
    with contextlib.ExitStack() as stack:
        try:
            copy = ProjectCopy(order.project)
            stack.enter_context(_alone(copy))
            wanted = copy.prepare(order.files)
        except UsageError as error:
            send(outgoing, Answer(refusal=error.message, hint=error.hint))
            return int(error.exit_code)
        except OSError as error:
            send(outgoing, Answer(refusal=str(error), hint="Free space, or repair the folder there."))
            return int(ExitCode.USAGE)
        send(outgoing, Answer(wanted))
        for index in wanted:
            copy.write(order.files[index], incoming, int(incoming.readline()))
        over = threading.Event()
        threading.Thread(target=_end_with, args=(incoming.fileno(), over), daemon=True).start()
        code, profile = _profiled(order, copy)
        over.set()
    send(outgoing, Outcome(code, len(profile)))
    outgoing.write(profile)
    outgoing.flush()
    return code


def _profiled(order: Order, copy: ProjectCopy) -> tuple[int, bytes]:
    """The exit code of ``skyline profile`` in the copy, and the saved profile. Empty if there is none."""
    from skyline.cli.main import main
    from skyline.trace import store

    os.chdir(copy.directory(order.directory))
    os.environ.update(order.variables)
    with tempfile.TemporaryDirectory(prefix="skyline-") as folder:
        # --here, because the copied project settings may name this same host.
        code = main(["profile", "--here", *order.options, "--output-dir", folder, "--", *order.words])
        saved = store.profiles_in(Path(folder)) if code == ExitCode.OK else []
        return code, saved[0].read_bytes() if saved else b""


def _end_with(descriptor: int, over: threading.Event) -> None:
    """End the run when the connection ends. The other machine sends nothing else on it."""
    with contextlib.suppress(OSError):
        while os.read(descriptor, 1):
            pass
    if over.is_set():
        return
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_TIMEOUT_S)
    if not over.is_set():
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The connection. Redirects stdin and stdout, which the command and the script inherit, to the null device."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")


@contextlib.contextmanager
def _alone(copy: ProjectCopy) -> Generator[None, None, None]:
    """Lock the copy, because a second run would change the files of a running script. Raises UsageError if locked."""
    place = copy.root.with_name(f"{copy.root.name}.lock")
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(
                    "this project is being profiled there already", hint="Wait until that run has ended."
                ) from error
        yield
