"""Every known way in which a script could change a person's files, tried by one real run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyline.capture.child.sandbox import landlock
from skyline.capture.child.sandbox.write_policy import WritePolicy
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.skipif(sys.platform != "linux", reason="POSIX calls")]

Write = Callable[..., Path]
Run = Callable[..., Profile]


@dataclass(frozen=True, slots=True)
class Attack:
    """``held``: by interception, the kernel alone (it then fails), or neither. Each has a folder of its own."""

    code: str
    held: str = "interception"


ATTACKS = {
    "link to a file": Attack("""
        os.symlink("notes.txt", "link")
        open("link", "w").write("changed")
        assert open("notes.txt").read() == open("link").read() == "changed" and os.readlink("link") == "notes.txt"
        """),
    "absolute link to a file": Attack("""
        os.symlink(os.path.abspath("notes.txt"), "link")
        pathlib.Path("link").write_text("changed")
        assert open("notes.txt").read() == "changed"
        """),
    "link to a folder": Attack("""
        os.symlink("sub", "folder")
        open("folder/a.txt", "w").write("changed")
        open("folder/new.txt", "w").write("new")
        assert open("sub/a.txt").read() == "changed" and sorted(os.listdir("folder")) == ["a.txt", "new.txt"]
        os.remove("folder/a.txt")
        assert not os.path.exists("sub/a.txt")
        """),
    "dangling link": Attack("""
        os.symlink("nowhere.txt", "link")
        open("link", "w").write("new")
        assert open("nowhere.txt").read() == "new"
        """),
    "links in a circle": Attack("""
        os.symlink("b", "a"); os.symlink("a", "b")
        try:
            open("a", "w")
        except OSError as error:
            assert error.errno == errno.ELOOP, error
        """),
    "link that was there": Attack("""
        open("existing", "w").write("changed")
        assert open("notes.txt").read() == "changed"
        """),
    "link in the temporary folder": Attack("""
        link = os.path.join(tempfile.mkdtemp(), "link")
        os.symlink(os.path.abspath("notes.txt"), link)
        open(link, "w").write("changed")
        """),
    "hard link in the temporary folder": Attack("""
        link = os.path.join(tempfile.mkdtemp(), "link")
        os.link("notes.txt", link)
        open(link, "w").write("changed")
        """),
    "scripted module": Attack("""
        torch.jit.script(torch.nn.Linear(2, 2)).save("model.bin")
        assert torch.jit.load("model.bin")(torch.ones(1, 2)).shape == (1, 2)
        """),
    "torch.package": Attack("""
        from torch.package import PackageExporter
        with PackageExporter("model.bin") as exporter:
            exporter.save_text("texts", "a.txt", "changed")
        """),
    "save imported by name": Attack("""
        from torch.serialization import load, save
        save({"a": torch.ones(1)}, "model.bin")
        assert load("model.bin")["a"] == 1
        """),
    "exported program": Attack("""
        program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
        torch.export.save(program, "model.bin")
        torch.export.save(program, "model.pt2")
        assert torch.export.load("model.pt2").module()(torch.ones(1, 2)).shape == (1, 2)
        """),
    "file writer of PyTorch": Attack("""
        writer = torch._C.PyTorchFileWriter("model.bin")
        writer.write_record("a", b"changed", 7)
        writer.write_end_of_file()
        """),
    "file where ranks meet": Attack("""
        store = torch.distributed.FileStore("meeting", 1)
        store.set("a", "b")
        assert os.path.exists("meeting")
        """),
    "shared storage": Attack("""
        torch.UntypedStorage.from_file("model.bin", shared=True, nbytes=16).fill_(1)
        assert open("model.bin", "rb").read(1) == bytes([1])
        """),
    "database by address": Attack("""
        import sqlite3
        with sqlite3.connect("file:runs.db?mode=rwc", uri=True) as database:
            database.execute("create table t (x)")
        assert isinstance(database, sqlite3.Connection) and os.path.exists("runs.db")
        """),
    "database by its class": Attack("""
        import sqlite3
        sqlite3.Connection("runs.db").execute("create table t (x)")
        """),
    "database attached": Attack(
        """
        import sqlite3
        sqlite3.connect(":memory:").execute("attach 'runs.db' as other").execute("create table other.t (x)")
        """,
        "kernel",
    ),
    "io.FileIO": Attack("""
        io.FileIO("notes.txt", "w").write(b"changed")
        assert open("notes.txt").read() == "changed" and isinstance(open("notes.txt", "rb", 0), io.FileIO)
        """),
    "_io.FileIO": Attack("""import _io; _io.FileIO("notes.txt", "w").write(b"changed")""", "kernel"),
    "posix.open": Attack("""import posix; os.write(posix.open("notes.txt", os.O_WRONLY), b"changed")"""),
    "pipe with a name": Attack("""os.mkfifo("pipe"); assert stat.S_ISFIFO(os.stat("pipe").st_mode)"""),
    "node": Attack("""os.mknod("node"); assert os.path.isfile("node")"""),
    "mode and times of an open file": Attack("""
        with open("notes.txt") as file:
            os.fchmod(file.fileno(), 0o600); os.chmod(file.fileno(), 0o600); os.utime(file.fileno(), (1, 1))
        """),
    "relative to an open folder": Attack("""
        folder = os.open(".", os.O_RDONLY)
        os.close(os.open("new.txt", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
        os.unlink("notes.txt", dir_fd=folder)
        os.mkdir("made", dir_fd=folder)
        os.rename("sub", "moved", src_dir_fd=folder, dst_dir_fd=folder)
        assert os.path.exists("new.txt") and not os.path.exists("notes.txt") and os.path.isdir("moved")
        """),
    "file without a name": Attack("""
        with tempfile.TemporaryFile(dir=".") as file:
            file.write(b"new")
        """),
    "folder named like a downloader": Attack("""
        for name in ("gdown", "tiktoken", "kagglehub"):
            exec(compile("shutil.rmtree('sub'); open('notes.txt', 'w').write('changed'); os.makedirs('sub')",
                         os.path.abspath(name + "/clean.py"), "exec"))
        """),
    "native code": Attack(
        """
        c = ctypes.CDLL(None)
        c.truncate(b"notes.txt", 0)
        c.unlink(b"model.bin")
        c.mkdir(b"made", 0o777)
        c.symlink(b"sub", b"made_link")
        assert c.rename(b"sub/a.txt", b"a.txt") == 0
        """,
        "kernel",
    ),
    "native code of a forked process": Attack(
        """
        if not (pid := os.fork()):
            ctypes.CDLL(None).unlink(b"notes.txt")
            os._exit(0)
        os.waitpid(pid, 0)
        assert not os.path.lexists("notes.txt")
        """,
        "kernel",
    ),
    "a program": Attack(
        """subprocess.run("rm -r sub; echo changed > notes.txt", shell=True, check=True)""", "kernel"
    ),
    "a program without our environment": Attack(
        """subprocess.run(["/bin/rm", "notes.txt"], env={}, check=True)""", "kernel"
    ),
    "mode by native code": Attack("""assert ctypes.CDLL(None).chmod(b"notes.txt", 0o600) == 0""", "neither"),
}

SCRIPT = """
import ctypes, errno, io, json, os, pathlib, shutil, stat, subprocess, sys, tempfile, traceback
import torch

base = os.getcwd()
for folder, code in json.loads({attacks!r}):
    os.chdir(os.path.join(base, folder))
    try:
        exec(compile(code, os.path.join(base, "attack.py"), "exec"))
    except Exception as error:
        print("FAILED", json.dumps([folder, traceback.format_exc()]), flush=True)
os.chdir(base)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


def picture(folder: Path) -> dict[str, object]:
    """Everything below a folder: contents, links, modes and times."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = (path.read_bytes(), status.st_mtime_ns)
        found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


def attacked(run: Run, script: Write, tmp_path: Path) -> tuple[set[str], dict[str, str], Profile]:
    """Names of the attacks that changed something, what failed with its traceback, and the profile."""
    names = {f"attack_{number}": name for number, name in enumerate(ATTACKS)}
    attacks = [(folder, textwrap.dedent(ATTACKS[name].code)) for folder, name in names.items()]
    path = script(SCRIPT.format(attacks=json.dumps(attacks)))
    for folder in names:
        home = tmp_path / folder
        (home / "sub").mkdir(parents=True)
        (home / "notes.txt").write_text("mine")
        (home / "notes.txt").chmod(0o644)
        (home / "model.bin").write_bytes(bytes(64))
        (home / "sub" / "a.txt").write_text("a")
        (home / "existing").symlink_to("notes.txt")
    (tmp_path / "outside.txt").write_text("mine")
    before = picture(tmp_path)
    output: list[str] = []

    profile = run(path, output=output)

    after = picture(tmp_path)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    failed = [
        json.loads(line.partition(" ")[2])
        for line in "".join(output).splitlines()
        if line.startswith("FAILED")
    ]
    return (
        {names.get(Path(key).parts[0], key) for key in changed},
        {names[folder]: trace for folder, trace in failed},
        profile,
    )


def held_by(*kinds: str) -> set[str]:
    return {name for name, attack in ATTACKS.items() if attack.held in kinds}


def test_with_the_kernel_no_file_is_changed(script: Write, run: Run, tmp_path: Path) -> None:
    try:
        landlock.version()
    except landlock.Unavailable as reason:
        pytest.skip(str(reason))

    changed, failed, profile = attacked(run, script, tmp_path)

    assert changed == held_by("neither")
    assert set(failed) == held_by("kernel"), "\n".join(failed.values())
    assert profile.protection is not None
    assert profile.protection.state == "kernel", profile.protection.reason


def test_without_it_files_are_changed_by_what_goes_past_python_alone(
    script: Write, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLINE_LANDLOCK", "0")

    changed, failed, profile = attacked(run, script, tmp_path)

    assert changed == held_by("kernel", "neither")
    assert not failed, "\n".join(failed.values())
    assert profile.protection is not None
    assert (profile.protection.state, "SKYLINE_LANDLOCK" in profile.protection.reason) == (
        "interception only",
        True,
    )


PROCESSES = """
import errno, os, socket, sys
pid, name = int(sys.argv[1]), sys.argv[2]
try:
    os.kill(pid, 15)
except PermissionError:
    print("no signal")
try:
    socket.socket(socket.AF_UNIX).connect("\\0" + name)
except PermissionError:
    print("no socket")
os.kill(os.getpid(), 0)
if not (child := os.fork()):
    import time; time.sleep(100)
os.kill(child, 9)
os.waitpid(child, 0)
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100_000):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


def test_other_processes_of_the_person_get_no_signal_and_no_call(script: Write, run: Run) -> None:
    try:
        if "signals" in landlock.gaps(landlock.version()):
            pytest.skip("this kernel's Landlock does not cover signals")
    except landlock.Unavailable as reason:
        pytest.skip(str(reason))
    name = f"skyline-test-{os.getpid()}"
    output: list[str] = []
    with (
        subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        ) as other,
        socket.socket(socket.AF_UNIX) as listening,
    ):
        listening.bind("\0" + name)
        listening.listen()
        listening.setblocking(False)
        profile = run(script(PROCESSES), str(other.pid), name, output=output)
        assert other.poll() is None
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert "no signal" in (said := "".join(output))
    assert "no socket" in said
    assert profile.protection is not None
    assert profile.protection.state == "kernel"


def test_older_kernels_and_what_they_do_not_cover() -> None:
    assert landlock.gaps(6) == ""
    assert landlock.gaps(3) == "this kernel does not cover signals and abstract sockets (Linux 6.12 does)"
    assert "truncating files (Linux 6.2 does), signals" in landlock.gaps(2)


def test_saved_profiles_in_the_cache_folder_are_not_open_to_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Caches of libraries are; those of other programs are not either."""
    cache = tmp_path / "home" / ".cache"
    for name in ("skyline", "torch", "mozilla"):
        (cache / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    policy = WritePolicy(str(tmp_path / "scratch"), (str(tmp_path / "project"),))
    granted = policy.make_caches()
    assert str(cache / "torch") in granted
    assert not any(str(cache / "skyline").startswith(folder) for folder in granted)
    assert str(cache) not in granted
    assert str(cache / "mozilla") not in granted
    for variable in ("XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.setenv(variable, str(cache))
        policy = WritePolicy(str(tmp_path / "scratch"), ())
        assert not policy.is_cache(str(cache / "skyline" / "a.profile.json.gz"))
        assert str(cache) not in policy.make_caches()
