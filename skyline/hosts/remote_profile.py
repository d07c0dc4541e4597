"""A profile from a host: the project is copied there, profiled there, and the profile comes back."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from skyline import units
from skyline.errors import Cancelled, ExitCode, SkylineError, UsageError
from skyline.hosts.connection import HostConnection
from skyline.hosts.messages import PART_BYTES, Answer, Order, Outcome, ProjectFile, receive, send
from skyline.hosts.project_files import project_files
from skyline.lazy_dataclass import dataclass
from skyline.source.project import project_root

if TYPE_CHECKING:
    from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class HostRun:
    """A run to be profiled on ``host``, in the folder that corresponds to ``directory``.

    ``skyline`` is the command that starts Skyline there (empty: the usual one). ``words`` are the script or
    launcher with its arguments. ``named`` is the word among them that names the script, empty if ``module``
    does. ``options`` are options of ``skyline profile``. ``variables`` are added to the environment.
    ``texts`` are (path, text) pairs that replace files of the project, for example with unsaved buffers.
    """

    host: str
    script: Path
    directory: Path
    words: tuple[str, ...]
    named: str
    options: tuple[str, ...]
    module: str = ""
    skyline: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def profile_on_host(
    run: HostRun,
    tell: Callable[[str], None],
    *,
    listener: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
) -> Profile:
    """The profile from the host, with the paths of this machine.

    ``tell`` gets remarks about the copy. ``listener`` gets each line of progress and of the script's output.
    Without a listener, the lines appear on stderr.

    Raises:
        UsageError: the project is too large, the host cannot be reached or has no Skyline of this version.
        SkylineError: the command failed there.
        Cancelled: ``cancel`` was set, or the run was interrupted there.
    """
    script = run.script.absolute()
    root = project_root(script)
    texts = _texts(root, run.texts)
    order = _order(run, script, root, texts, tell)
    with HostConnection(run.host, run.skyline, listener, cancel) as connection:
        try:
            send(connection.to_host, order)
            answer = receive(connection.from_host, Answer)
            if answer.refusal:
                raise UsageError(f"{run.host}: {answer.refusal}", hint=answer.hint)
            wanted = [order.files[index] for index in answer.wanted]
            size = sum(_size(root, file, texts) for file in wanted)
            tell(
                f"{run.host} gets {len(wanted)} of {len(order.files)} files of {root.name} "
                f"({units.format_bytes(size)})"
            )
            for file in wanted:
                _send_file(connection, root, file, texts)
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
            raise _Failed(run.host, outcome.code, connection.reason("the reason stands above"))
    return _loaded(data, script, run.host)


class _Failed(SkylineError):
    """The command on the host failed and printed its own message."""

    def __init__(self, host: str, code: int, reason: str) -> None:
        super().__init__(f"nothing was measured on {host}{reason}")
        known = {int(one) for one in ExitCode} - {int(ExitCode.OK)}
        self.exit_code = ExitCode(code) if code in known else ExitCode.CAPTURE_IMPOSSIBLE


def _texts(root: Path, texts: tuple[tuple[str, str], ...]) -> dict[str, bytes]:
    """The texts of files below ``root``, by their paths relative to it."""
    return {
        Path(path).relative_to(root).as_posix(): text.encode("utf-8")
        for path, text in texts
        if root in Path(path).parents
    }


def _order(
    run: HostRun, script: Path, root: Path, texts: Mapping[str, bytes], tell: Callable[[str], None]
) -> Order:
    here = run.directory
    if run.module and here not in script.parents:
        raise UsageError(
            f"{run.module} is not in this folder, so it cannot be copied to {run.host}",
            hint="Run the command in the folder of the project.",
        )
    if here != root and root not in here.parents:
        tell(f"the script runs in its copy of {root} there: this folder is not part of that project")
        here = root
    named = Path(os.path.relpath(script, here)).as_posix()
    words = tuple(named if run.named and word == run.named else word for word in run.words)
    key = sha256(f"{socket.gethostname()}\0{root}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    name = re.sub(r"[^\w.-]|^[.-]", "_", root.name or "root", flags=re.ASCII)
    relative = here.relative_to(root).as_posix()
    return Order(
        f"{name}-{key}",
        project_files(root, script, texts=texts),
        "" if relative == "." else relative,
        run.options,
        words,
        run.variables,
    )


def _size(root: Path, file: ProjectFile, texts: Mapping[str, bytes]) -> int:
    return len(texts[file.path]) if file.path in texts else (root / file.path).stat().st_size


def _send_file(connection: HostConnection, root: Path, file: ProjectFile, texts: Mapping[str, bytes]) -> None:
    if file.path in texts:
        connection.to_host.write(b"%d\n" % len(texts[file.path]))
        connection.to_host.write(texts[file.path])
        return
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
