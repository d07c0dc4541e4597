"""``skyline watch --attach``: shows a current run in another terminal."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyline.cli.key_presses import KeyPresses
from skyline.cli.status_line import StatusLine
from skyline.cli.streams import say, tell
from skyline.errors import ExitCode, UsageError
from skyline.units import plural

if TYPE_CHECKING:
    from skyline.cli.watching import Watching
    from skyline.watch.live_runs import Claim, LiveRun

_KEYS = {"p": "pause", "c": "continue", "f": "profile", "s": "stop"}
_LEAVE = "q"
_ANSWER_WITHIN_S = 10.0
_DETACHED = "skyline watch: detached; the run continues"

OptionsOf = Callable[[Sequence[str]], argparse.Namespace]


def attach(asked: str, request: str | None, options_of: OptionsOf, *, quiet: bool) -> int:
    """Show the run, or send it a request. If the watcher of the run was killed, watch the run from this process."""
    from skyline.watch.live_runs import Claim, live_run

    live = live_run(asked)
    claim = Claim.of(live)
    if claim is None:
        return _asked(live, request) if request else _joined(live, quiet=quiet)
    if request:
        claim.release(ended=False)
        raise UsageError(
            f"{live.name} is no longer watched",
            hint=f"Watch it again first: skyline watch --attach {live.name}",
        )
    return _taken_over(live, claim, options_of, quiet=quiet)


class _Line:
    """The connection to the watcher of a run."""

    def __init__(self, live: LiveRun) -> None:
        from skyline.watch.heard_run import clients_address

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._rest = b""
        try:
            self._socket.connect(clients_address(Path(live.folder)))
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"The watcher of {live.name} does not answer: {error.strerror or error}",
                hint="The run may have ended. Check with: skyline watch --attach",
            ) from error

    def fileno(self) -> int:
        """The file descriptor, for ``select``."""
        return self._socket.fileno()

    def ask(self, request: str) -> None:
        """Send a request. The answer arrives as a message."""
        self._socket.sendall(json.dumps({"ask": request}).encode() + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages that have arrived. Raises ConnectionError once the watcher has ended."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def close(self) -> None:
        """Detach."""
        self._socket.close()


def _asked(live: LiveRun, request: str) -> int:
    with contextlib.closing(_Line(live)) as line, contextlib.suppress(ConnectionError):
        line.ask(request)
        while select.select([line], [], [], _ANSWER_WITHIN_S)[0]:
            for message in line.messages():
                if message["kind"] == "answer":
                    if not message["done"]:
                        raise UsageError(message["text"], hint=message["hint"])
                    tell(f"{live.name}: {message['text']}")
                    return int(ExitCode.OK)
    raise UsageError(
        f"The watcher of {live.name} gave no answer",
        hint=f"Look at the run with skyline watch --attach {live.name}.",
    )


def _joined(live: LiveRun, *, quiet: bool) -> int:
    status = StatusLine(wanted=not quiet)
    with contextlib.closing(_Line(live)) as line, KeyPresses() as keys:
        try:
            return _followed(line, live, status, keys)
        except KeyboardInterrupt:
            status.close()
            say(_DETACHED)
            return int(ExitCode.OK)
        except ConnectionError:
            status.close()
            raise UsageError(
                f"The watcher of {live.name} has ended; the run continues",
                hint=f"Watch it again: skyline watch --attach {live.name}",
            ) from None
        finally:
            status.close()


def _followed(line: _Line, live: LiveRun, status: StatusLine, keys: KeyPresses) -> int:
    """Show messages until the run ends or the user leaves."""
    while True:
        ready, _, _ = select.select([line, *keys.sources], [], [])
        if line in ready:
            for message in line.messages():
                match message["kind"]:
                    case "run":
                        status.say(_head(message, keys=bool(keys.sources)))
                    case "said":
                        status.say(message["text"])
                    case "status":
                        status.draw(message["text"])
                    case "answer" if not message["done"]:
                        status.say(f"skyline watch: {message['text']}. {message['hint']}")
                    case "end":
                        status.close()
                        status.say(f"skyline watch: {live.name} has ended with {_code(message['exit_code'])}")
                        return int(ExitCode.OK)
                    case _:
                        pass
        if len(ready) > (line in ready):
            for request in _typed(keys):
                line.ask(request)


def _taken_over(live: LiveRun, claim: Claim, options_of: OptionsOf, *, quiet: bool) -> int:
    """Watch the run from this process, with the options that it was started with."""
    from skyline.cli.watch import rules_in_force
    from skyline.cli.watching import Watching
    from skyline.watch.adopted_run import AdoptedRun
    from skyline.watch.diary import Diary

    ended = False
    try:
        # The options may contain paths relative to the folder where the run was started.
        os.chdir(live.working_directory)
        options = options_of(live.options)
        rules, _ = rules_in_force(Path(live.project), options)
        diary = Diary(Path(live.history) if live.history else None, list(live.command), goes_on=True)
        run = AdoptedRun(live)
        watching = Watching(run, rules, diary, options, Path(live.beside), quiet=quiet)
        watching.open_to_clients(live)
        watching.watcher.report(f"{live.name} is watched again; its last watcher has ended")
        try:
            with KeyPresses() as keys:
                for source in keys.sources:
                    run.when_readable(source, lambda: _pressed(keys, watching))
                watching.to_the_end(lambda: None)
        except KeyboardInterrupt:
            diary.close()
            say(_DETACHED)
            return int(ExitCode.OK)
        ended = not live.goes_on
        if ended:
            watching.watcher.end(None)
            say(f"skyline watch: {live.name} has ended; alerts: {watching.watcher.alerts}", quiet=quiet)
    except OSError as error:
        raise UsageError(
            f"{live.name} cannot be watched again: {error}",
            hint="The run continues without alerts, with its own output.",
        ) from error
    finally:
        claim.release(ended=ended)
    return int(ExitCode.OK)


def _pressed(keys: KeyPresses, watching: Watching) -> None:
    for request in _typed(keys):
        answer = watching.requests.answer(request)
        if not answer["done"]:
            watching.status.say(f"skyline watch: {answer['text']}. {answer['hint']}")


def _typed(keys: KeyPresses) -> list[str]:
    """The requests for the typed keys. Raises KeyboardInterrupt to leave, also if the terminal has gone."""
    typed = keys.read()
    if not typed or _LEAVE in typed:
        raise KeyboardInterrupt
    return [_KEYS[key] for key in typed if key in _KEYS]


def _head(message: dict[str, Any], *, keys: bool) -> str:
    lines = [
        (
            f"{message['name']}: {shlex.join(message['command'])}, started {message['started']}, "
            f"process {message['process']}"
        ),
        f"{plural(message['rules'], 'rule')}, {plural(message['alerts'], 'alert')} so far"
        + (f"; history: {message['history']}" if message["history"] else ""),
    ]
    if message["status"]:
        lines.append(message["status"])
    if keys:
        allowed = {*message["allowed"], "continue"}
        named = [f"{key} {request}" for key, request in _KEYS.items() if request in allowed]
        lines.append(f"keys: {', '.join([*named, f'{_LEAVE} leave'])}")
    return "\n".join(lines)


def _code(code: int | None) -> str:
    if code is None:
        return "an unknown exit code"
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
