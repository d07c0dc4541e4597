"""``skyline profile --host``: the project is copied to a host, profiled there, and the profile comes back."""

from __future__ import annotations

import argparse
import os
import re
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skyline import units
from skyline.cli.capture_options import check_script, terminable
from skyline.cli.hosts.connection import HostConnection
from skyline.cli.hosts.messages import PART_BYTES, Answer, Order, Outcome, ProjectFile, receive, send
from skyline.cli.hosts.project_files import project_files
from skyline.cli.streams import say
from skyline.errors import Cancelled, ExitCode, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.project import project_root

if TYPE_CHECKING:
    from skyline.cli.launch import Launch
    from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class HostRun:
    """A run that is to be profiled on ``host``.

    ``skyline`` is the command that starts Skyline there (empty: the usual one), ``words`` the script or launcher with
    its arguments as typed, ``launch`` the same as understood here, ``options`` those of ``skyline profile``.
    """

    host: str
    skyline: str
    script: Path
    launch: Launch
    words: tuple[str, ...]
    options: tuple[str, ...]


def profile_on_host(run: HostRun, *, quiet: bool) -> Profile:
    """The profile from the host, with the paths of this machine.

    Raises:
        UsageError: the project is too large, the host cannot be reached or has no Skyline of this version.
        SkylineError: the command failed there; its message was printed.
    """
    check_script(run.script)
    script = run.script.absolute()
    root = project_root(script)
    order = _order(run, script, root, quiet=quiet)
    with terminable(), HostConnection(run.host, run.skyline) as connection:
        try:
            send(connection.to_host, order)
            answer = receive(connection.from_host, Answer)
            if answer.refusal:
                raise UsageError(f"{run.host}: {answer.refusal}", hint=answer.hint)
            wanted = [order.files[index] for index in answer.wanted]
            size = sum((root / file.path).stat().st_size for file in wanted)
            say(
                f"skyline: {run.host} gets {len(wanted)} of {len(order.files)} files of {root.name} "
                f"({units.format_bytes(size)})",
                quiet=quiet,
            )
            for file in wanted:
                _send_file(connection, root, file)
            connection.to_host.flush()
            outcome = receive(connection.from_host, Outcome)
            data = connection.from_host.read(outcome.profile_bytes)
        except (EOFError, BrokenPipeError, msgspec.DecodeError) as error:
            raise connection.lost() from error
        if len(data) < outcome.profile_bytes:
            raise connection.lost()
    if outcome.code == ExitCode.INTERRUPTED:
        raise Cancelled("interrupted")
    if outcome.code != ExitCode.OK or not data:
        raise _Failed(run.host, outcome.code)
    return _loaded(data, script, run.host)


class _Failed(SkylineError):
    """The command on the host failed, and printed its own message."""

    def __init__(self, host: str, code: int) -> None:
        super().__init__(f"nothing was measured on {host}; the reason stands above")
        known = {int(one) for one in ExitCode} - {int(ExitCode.OK)}
        self.exit_code = ExitCode(code) if code in known else ExitCode.CAPTURE_IMPOSSIBLE


def _order(run: HostRun, script: Path, root: Path, *, quiet: bool) -> Order:
    here = Path.cwd()
    if run.launch.module and here not in script.parents:
        raise UsageError(
            f"{run.launch.module} is not in this folder, so it cannot be copied to {run.host}",
            hint="Run the command in the folder of the project.",
        )
    if here != root and root not in here.parents:
        say(
            f"skyline: the script runs in its copy of {root} there: this folder is not part of that project",
            quiet=quiet,
        )
        here = root
    named = Path(os.path.relpath(script, here)).as_posix()
    words = tuple(named if word == run.launch.script else word for word in run.words)
    key = sha256(f"{socket.gethostname()}\0{root}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    name = re.sub(r"[^\w.-]|^[.-]", "_", root.name or "root", flags=re.ASCII)
    relative = here.relative_to(root).as_posix()
    return Order(
        f"{name}-{key}",
        project_files(root, script),
        "" if relative == "." else relative,
        run.options,
        words,
    )


def _send_file(connection: HostConnection, root: Path, file: ProjectFile) -> None:
    with (root / file.path).open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        connection.to_host.write(b"%d\n" % size)
        while size:
            part = opened.read(min(size, PART_BYTES))
            if not part:
                raise UsageError(f"{file.path} was changed while it was sent", hint="Run the command again.")
            connection.to_host.write(part)
            size -= len(part)


def _loaded(data: bytes, script: Path, host: str) -> Profile:
    from skyline.trace import store

    with tempfile.TemporaryDirectory(prefix="skyline-") as folder:
        path = Path(folder) / store.name_of(script, "host")
        path.write_bytes(data)
        profile = store.load(path, script)
    if profile.mode != "measured":
        return profile
    environment = profile.environment
    device = replace(environment.device, host=host)
    return replace(profile, environment=replace(environment, device=device))


def without(words: Sequence[str], options: Sequence[argparse.Action]) -> tuple[str, ...]:
    """The words of a command line without these options and their values."""
    left_out = {name: option for option in options for name in option.option_strings}
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        option = left_out.get(name)
        if option is None:
            kept.append(word)
        elif option.nargs != 0 and not equals:
            next(rest, None)
    return tuple(kept)
