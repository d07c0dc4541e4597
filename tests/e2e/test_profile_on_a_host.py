"""``skyline profile --host``, with an ``ssh`` that runs its command on this machine under another home folder.

All processes are real: the command here, the login shell, ``skyline receive`` and the script on the "host".
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from skyline.trace import store

pytestmark = [
    pytest.mark.capture,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="the other machine is played by /proc and bash"),
]

WAIT_S = 300
BRIEF = ("--device", "cpu", "--budget", "0", "--steps", "4", "--warmup", "2")
SSH = """\
#!/bin/sh
while [ "$1" != "--" ]; do echo "$1" >> {home}/options; shift; done
if [ "$2" != gpubox ]; then
  echo "ssh: Could not resolve hostname $2: Name or service not known" >&2
  exit 255
fi
cd {home}
exec env -u VIRTUAL_ENV -u XDG_CACHE_HOME HOME={home} SHELL=/bin/bash HOST_MARK={mark} /bin/bash -c "$3"
"""
SETTINGS = """\
[tool.skyline.profile]
host = "gpubox"
"""
TRAIN = """\
import os
import sys
import time
import torch
from sizes import SIZE
print("runs", os.getpid(), sys.argv[1:], flush=True)
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    if "--slow" in sys.argv:
        time.sleep(0.5)
    optimizer.zero_grad()
    model(torch.randn(SIZE, 32)).square().mean().backward()
    optimizer.step()
"""


@dataclass(frozen=True, slots=True)
class Box:
    """The other machine: ``home`` is the home folder there, ``mark`` is in the environment of all its processes."""

    home: Path
    mark: str

    def has(self, program: str) -> None:
        """Install ``skyline`` there."""
        place = self.home / "bin" / "skyline"
        place.write_text(f"#!/bin/sh\n{program}\n")
        place.chmod(0o755)

    @property
    def copy(self) -> Path:
        """The copy of the project there."""
        (found,) = (self.home / ".cache" / "skyline" / "projects").glob("project-*[0-9a-f]/")
        return found

    def processes(self) -> list[int]:
        """Everything that runs there."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"HOST_MARK={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if marked:
                found.append(int(entry.name))
        return found


@pytest.fixture
def box(tmp_path: Path) -> Box:
    home = tmp_path / "box"
    (home / "bin").mkdir(parents=True)
    # Login shells print a greeting, and set the path.
    (home / ".profile").write_text('export PATH="$HOME/bin:/usr/bin:/bin"\necho Welcome to gpubox\n')
    box = Box(home, uuid4().hex)
    box.has(f'exec {sys.executable} -m skyline "$@"')
    return box


@pytest.fixture
def environment(tmp_path: Path, box: Box, brief_start: None) -> dict[str, str]:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").write_text(SSH.format(home=box.home, mark=box.mark))
    (programs / "ssh").chmod(0o755)
    return {
        **os.environ,
        "COLUMNS": "100",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    (folder / "src" / "train.py").write_text(TRAIN)
    (folder / "src" / "sizes.py").write_text("SIZE = 8\n")
    (folder / "src" / "old.py").write_text("")
    return folder


Ran = subprocess.CompletedProcess[str]
Terminal = Callable[..., Ran]


@pytest.fixture
def terminal(project: Path, environment: dict[str, str]) -> Terminal:
    def run(*words: str) -> Ran:
        return subprocess.run(
            [sys.executable, "-m", "skyline", *words],
            cwd=project / "src",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    return run


def test_the_profile_comes_back(project: Path, box: Box, terminal: Terminal) -> None:
    arguments = ("--name", "it's $HOME; exit 3", "", "*")
    ran = terminal("profile", "--host", "gpubox", *BRIEF, "train.py", *arguments)
    assert ran.returncode == 0, ran.stderr
    assert f"{list(arguments)}" in ran.stderr
    assert " of gpubox, " in ran.stdout
    assert "Welcome" not in ran.stdout
    assert "gpubox gets 4 of 4 files of project" in ran.stderr
    assert (box.home / "options").read_text().split() == ["-T", "-C", "-o", "BatchMode=yes"]

    script = project / "src" / "train.py"
    saved = store.latest(script)
    assert saved is not None
    profile = store.load(saved, script)
    assert profile.script == str(script)
    assert profile.working_directory == str(script.parent)
    assert profile.environment.device.host == "gpubox"
    assert profile.arguments == arguments
    assert {str(script), str(script.with_name("sizes.py"))} <= {source.path for source in profile.sources}
    assert any(line.file == str(script) for line in profile.trace.lines)
    assert not any(str(box.home / ".cache") in line.file for line in profile.trace.lines)
    assert (project / "src" / "train.py").read_text() == TRAIN
    assert not list(box.home.rglob("*.profile.json.gz"))

    assert " of gpubox, " in terminal("show", "train.py").stdout
    answered = terminal("whatif", "train.py", "batch_size=16")
    assert answered.returncode == 0, answered.stderr
    assert "from the profile of" in answered.stderr
    refused = terminal("verify", "train.py", "batch_size=16")
    assert refused.returncode == 2
    assert "was profiled on gpubox, and this command measures here" in refused.stderr
    applied = terminal("apply", "train.py", "batch_size=16")
    assert applied.returncode == 0, applied.stderr
    assert (project / "src" / "sizes.py").read_text() == "SIZE = 16\n"
    stale = terminal("whatif", "train.py", "batch_size=32")
    assert stale.returncode == 2
    assert "skyline profile --host gpubox train.py" in stale.stderr

    # Changes follow, what was deleted goes, and what lies only there stays.
    (project / "src" / "old.py").unlink()
    data = box.copy / "data" / "set.bin"
    data.parent.mkdir()
    data.write_bytes(b"0")
    # The settings of the project name the host, and go there, too.
    (project / "pyproject.toml").write_text(SETTINGS)
    again = terminal("profile", "--json", "-", *BRIEF, "train.py")
    assert again.returncode == 0, again.stderr
    assert "gpubox gets 2 of 3 files of project" in again.stderr
    assert '"batch_size":{"value":16' in again.stdout.replace(" ", "")
    assert not (box.copy / "src" / "old.py").exists()
    assert data.exists()


def test_a_host_that_cannot_be_reached(terminal: Terminal) -> None:
    ran = terminal("profile", "--host", "nowhere", "train.py")
    assert ran.returncode == 2
    assert "Could not resolve hostname nowhere" in ran.stderr
    assert "nowhere could not be reached" in ran.stderr
    assert "ssh -o BatchMode=yes nowhere true" in ran.stderr


def test_the_host_of_the_settings(project: Path, terminal: Terminal) -> None:
    (project / "pyproject.toml").write_text('[tool.skyline.profile]\nhost = "nowhere"\n')
    assert "nowhere could not be reached" in terminal("profile", "train.py").stderr
    here = terminal("profile", "--here", "missing.py")
    assert "missing.py does not exist" in here.stderr
    assert "nowhere" not in here.stderr
    both = terminal("profile", "--here", "--host", "gpubox", "train.py")
    assert both.returncode == 2
    assert "--host and --here contradict each other" in both.stderr


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", ""])
def test_no_name_of_a_host(terminal: Terminal, host: str) -> None:
    ran = terminal("profile", f"--host={host}", "train.py")
    assert ran.returncode == 2
    assert "is not the name of a host" in ran.stderr


def test_a_host_without_skyline(box: Box, terminal: Terminal) -> None:
    (box.home / "bin" / "skyline").unlink()
    ran = terminal("profile", "--host", "gpubox", "--host-skyline", "~/missing/skyline", "train.py")
    assert ran.returncode == 2
    assert "Skyline does not start with '~/missing/skyline' on gpubox" in ran.stderr
    (box.home / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (box.home / "bin" / "python3").chmod(0o755)
    ran = terminal("profile", "--host", "gpubox", "train.py")
    assert ran.returncode == 2
    assert "Skyline is not installed on gpubox" in ran.stderr
    assert "pipx install skyline-profiler==" in ran.stderr
    assert not (box.home / ".cache").exists()


def test_another_version_there(box: Box, terminal: Terminal) -> None:
    box.has("echo skyline 0.0.9")
    ran = terminal("profile", "--host", "gpubox", "train.py")
    assert ran.returncode == 2
    assert "gpubox has skyline 0.0.9, and this is skyline " in ran.stderr
    assert not (box.home / ".cache").exists()


def test_a_script_that_fails_there(project: Path, box: Box, terminal: Terminal) -> None:
    box.has("exit 1")
    (project / "src" / "train.py").write_text("import torch\nraise RuntimeError('no data')\n")
    command = f"env {sys.executable} -m skyline"
    ran = terminal("profile", "--host", "gpubox", "--host-skyline", command, *BRIEF, "train.py")
    assert ran.returncode == 1
    assert "RuntimeError: no data" in ran.stderr
    assert "nothing was measured on gpubox" in ran.stderr
    assert store.latest(project / "src" / "train.py") is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process(
    project: Path, box: Box, environment: dict[str, str], number: signal.Signals
) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "skyline", "profile", "--host", "gpubox", *BRIEF, "train.py", "--slow"],
        cwd=project / "src",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that run in the background of a shell ignore this signal, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert running.stderr is not None
    told = ""
    for line in running.stderr:
        told += line
        if line.startswith("runs "):
            break
    assert "runs " in told, told
    assert len(box.processes()) > 1
    running.send_signal(number)
    rest = running.stderr.read()
    assert running.wait(WAIT_S) == (-number if number == signal.SIGKILL else 130), rest
    until = time.monotonic() + WAIT_S
    while box.processes() and time.monotonic() < until:
        time.sleep(0.1)
    assert box.processes() == []
    assert store.latest(project / "src" / "train.py") is None
