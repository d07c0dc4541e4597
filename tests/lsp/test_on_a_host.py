"""The setting ``profile.host``: the runs that go there, and how they end. The ``ssh`` is one of the tests."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.capture.request import CaptureRequest, Progress
from skyline.errors import Cancelled, UsageError
from skyline.report import protocol
from skyline.settings.source import from_words
from skyline.trace import store
from skyline_lsp.launched import LaunchedRun
from skyline_lsp.on_host import captured_on_host, check_measured_here, host_run
from skyline_lsp.profiler import Profiler
from skyline_lsp.server import SkylineServer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the other machine is played by a POSIX shell"
)

Install = Callable[[str], Path]
HOST = """\
while [ "$1" != "--" ]; do shift; done
cd {home}
exec env -u XDG_CACHE_HOME HOME={home} SHELL=/bin/sh /bin/sh -c "$3"
"""


@pytest.fixture
def install(
    tmp_path_factory: pytest.TempPathFactory, preloaded: str, monkeypatch: pytest.MonkeyPatch
) -> Install:
    """Puts an ``ssh`` with this shell script on the path; the home folder of the host."""
    home, programs = tmp_path_factory.mktemp("box"), tmp_path_factory.mktemp("programs")
    (home / "bin").mkdir()
    (home / ".profile").write_text('export PATH="$HOME/bin:/usr/bin:/bin"\n')
    skyline = home / "bin" / "skyline"
    brief = f"PYTHONPATH='{preloaded}' OMP_NUM_THREADS=1"
    skyline.write_text(f'#!/bin/sh\n{brief} exec {sys.executable} -m skyline "$@"\n')
    skyline.chmod(0o755)

    def put(script: str) -> Path:
        program = programs / "ssh"
        program.write_text("#!/bin/sh\n" + script.format(home=home))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        return home

    return put


def request(folder: Path, **changes: object) -> CaptureRequest:
    (folder / "train.py").write_text("import torch\n")
    return replace(CaptureRequest(folder / "train.py", working_directory=folder), **changes)


def captured(asked: CaptureRequest, cancel: threading.Event | None = None) -> list[Progress]:
    """The progress of a run on the host ``gpubox`` that ends in an error; the error is the last entry."""
    heard: list[Progress] = []
    with pytest.raises((UsageError, Cancelled)) as raised:
        captured_on_host(
            LaunchedRun(asked, host="gpubox"),
            progress=heard.append,
            output=lambda _: None,
            cancel=cancel or threading.Event(),
        )
    heard.append(Progress("end", str(raised.value), 1.0))
    return heard


def test_a_run_there_is_the_run_of_the_editor(tmp_path: Path) -> None:
    script = str(tmp_path / "train.py")
    asked = request(
        tmp_path,
        arguments=("--lr", "0.1"),
        interpreter="/usr/bin/python3",
        variables=(("SEED", "1"),),
        steps=20,
        warmup=3,
        batch_points=0,
        source_overrides=((script, "typed"),),
    )
    run = host_run(LaunchedRun(asked, host="gpubox"))
    assert run.words == (script, "--lr", "0.1")
    assert run.named == script
    assert run.directory == tmp_path
    assert run.variables == (("SEED", "1"),)
    assert run.texts == ((script, "typed"),)
    options = "--device auto --steps 20 --timeout 180 --budget 0 --warmup 3"
    assert run.options == tuple(options.split()), "the interpreter is chosen there"
    module = host_run(LaunchedRun(replace(asked, module="package.train"), host="gpubox"))
    assert (module.words[:2], module.named) == (("-m", "package.train"), "")
    ranks = host_run(LaunchedRun(asked, ("torchrun", "--nproc-per-node", "2"), "gpubox"))
    assert ranks.words == ("torchrun", "--nproc-per-node", "2", script, "--lr", "0.1"), "the host reads them"


@pytest.mark.parametrize(
    ("words", "host", "on_save"),
    [
        ((), "", True),
        (("profile.host=gpubox",), "gpubox", False),
        (("profile.host=gpubox", "network=open"), "gpubox", True),
        (("profile.host=gpubox", "gpu=A100"), "", True),
    ],
)
def test_a_save_goes_there_only_with_the_network_open(
    words: tuple[str, ...], host: str, on_save: bool, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\n")

    async def ask() -> tuple[str, bool]:
        server = SkylineServer(from_words(words))
        server.profiler = Profiler(server, asyncio.get_running_loop())
        state = server.scripts.ensure(path.as_uri(), str(path))
        state.asked = True
        return server.profiler.host_of(state), server.saves._wanted(state)

    assert asyncio.run(ask()) == (host, on_save)


def test_the_words_of_ssh_are_in_the_error(tmp_path: Path, install: Install) -> None:
    install('echo "ssh: Could not resolve hostname gpubox" >&2\nexit 255\n')
    heard = captured(request(tmp_path))
    assert heard[0].message == "connecting to gpubox"
    assert "gpubox could not be reached: ssh: Could not resolve hostname gpubox" in heard[-1].message


def test_a_connection_that_stands_still_can_be_cancelled(tmp_path: Path, install: Install) -> None:
    install("exec sleep 600\n")
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    assert captured(request(tmp_path), cancel)[-1].message == "cancelled"


def test_what_measures_here_refuses_a_profile_of_a_host(profiled: Path) -> None:
    saved = store.latest(profiled / "train.py")
    assert saved is not None
    profile = store.load(saved)
    check_measured_here(profile, "Verify")
    device = replace(profile.environment.device, host="gpubox")
    there = replace(profile, environment=replace(profile.environment, device=device))
    with pytest.raises(UsageError, match="was profiled on gpubox, but Verify measures on this machine"):
        check_measured_here(there, "Verify")


@pytest.mark.capture
@pytest.mark.fresh
async def test_an_editor_shows_the_profile_of_the_host(
    project: Path, install: Install, start_editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install(HOST)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    editor = await start_editor({"profile": {"host": "gpubox", "device": "cpu", "env": {"SEED": "7"}}})
    told = 'import os\nprint("seed", os.environ["SEED"])\n'
    script = editor.open(project / "train.py", told + (project / "train.py").read_text())
    quick = {"steps": 4, "warmup": 2, "batchPoints": 0}
    await editor.run(protocol.COMMAND_PROFILE, script, quick)
    change = await editor.next_change(lambda change: change["profileId"] or change["error"])
    assert change["error"] is None
    assert not change["stale"], "the unsaved text was measured"
    report = await editor.ask(protocol.PROFILE, uri=script)
    assert report["device"]["host"] == "gpubox"
    assert report["script"] == str(project / "train.py")
    messages = [value.message for values in editor.progress() for value in values]
    assert any("gpubox gets 2 of 2 files" in message for message in messages), messages
    assert any(", on gpubox" in message for message in messages), messages
