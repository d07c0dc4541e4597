"""The person's files are as they were, whatever the script does to them, and the script does not notice."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.child.sandbox import landlock

Effects = list[dict[str, Any]]
Sandboxed = Callable[..., Effects]


def picture(folder: Path) -> dict[str, object]:
    """Everything below a folder: contents, modes and times."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            None if path.is_dir() else (path.read_bytes(), path.lstat().st_mtime_ns),
        )
        for path in sorted(folder.rglob("*"))
    }


WRITES = {
    "makedirs and files in them": """
        os.makedirs("runs/1/logs")
        os.makedirs("runs/1/logs", exist_ok=True)
        open("runs/1/logs/a.csv", "w").write("1,2")
        assert os.path.isdir("runs/1") and os.listdir("runs") == ["1"]
        assert open("runs/1/logs/a.csv").read() == "1,2"
        import glob
        assert glob.glob("runs/*/logs/*.csv") == ["runs/1/logs/a.csv"]
        """,
    "pathlib": """
        path = pathlib.Path("runs/x.txt")
        path.parent.mkdir()
        path.write_text("1")
        path.touch()
        assert path.exists() and path.read_text() == "1" and [p.name for p in path.parent.iterdir()] == ["x.txt"]
        path.rename("runs/y.txt")
        assert not path.exists() and pathlib.Path("runs/y.txt").is_file()
        pathlib.Path("notes.txt").touch()
        """,
    "names found by patterns": """
        here = pathlib.Path(".")
        (here / "runs" / "1").mkdir(parents=True)
        (here / "runs" / "1" / "a.pt").write_text("1")
        (here / "data" / "a.txt").unlink()
        assert list(here.glob("runs/*/*.pt")) == [here / "runs" / "1" / "a.pt"]
        assert list(here.glob("data/a.txt")) == [] and [p.name for p in here.glob("data/*")] == ["b.txt"]
        assert list((here / "runs").rglob("*.pt")) == [here / "runs" / "1" / "a.pt"]
        assert [p.name for p in here.rglob("*.txt")].count("a.txt") == 0
        """,
    "cleaning the output folder": """
        shutil.rmtree("out")
        assert not os.path.exists("out") and "out" not in os.listdir(".")
        os.makedirs("out")
        assert os.listdir("out") == []
        open("out/new", "w").close()
        assert sorted(os.listdir("out")) == ["new"]
        shutil.rmtree("out")
        shutil.rmtree("out", ignore_errors=True)
        assert not os.path.exists("out")
        """,
    "removing a file twice": """
        os.remove("notes.txt")
        assert not os.path.exists("notes.txt")
        for call in (os.remove, open, os.stat, lambda name: os.rename(name, "elsewhere")):
            try:
                call("notes.txt")
            except FileNotFoundError as error:
                assert error.filename == "notes.txt"
            else:
                raise AssertionError(call)
        pathlib.Path("notes.txt").write_text("again")
        assert open("notes.txt").read() == "again"
        """,
    "renaming": """
        os.rename("data", "data_old")
        assert not os.path.exists("data") and sorted(os.listdir("data_old")) == ["a.txt", "b.txt"]
        open("data_old/c.txt", "w").write("c")
        os.replace("data_old/c.txt", "data_old/a.txt")
        assert open("data_old/a.txt").read() == "c" and open("data_old/b.txt").read() == "b"
        shutil.move("data_old/b.txt", "b.txt")
        assert sorted(os.listdir("data_old")) == ["a.txt"]
        os.rename("log.txt", "log.1.txt")
        assert open("log.1.txt").read() == "old\\n"
        """,
    "appending and changing in place": """
        with open("log.txt", "a") as log:
            log.write("new")
        assert open("log.txt").read() == "old\\nnew"
        with open("notes.txt", "r+") as notes:
            notes.write("M")
        assert open("notes.txt").read() == "Mine"
        os.truncate("data/a.txt", 0)
        assert os.path.getsize("data/a.txt") == 0
        os.chmod("data/b.txt", 0o600)
        os.utime("data/b.txt", (1, 1))
        """,
    "copying": """
        shutil.copy("notes.txt", "data/notes.txt")
        shutil.copytree("data", "data2")
        assert sorted(os.listdir("data2")) == ["a.txt", "b.txt", "notes.txt"]
        shutil.make_archive("archive", "zip", "data")
        assert os.path.getsize("archive.zip") > 0
        """,
    "links": """
        open("ckpt_1", "w").write("1")
        os.symlink("ckpt_1", "latest")
        assert open("latest").read() == "1" and os.readlink("latest") == "ckpt_1"
        os.link("notes.txt", "hard.txt")
        open("hard.txt", "a").write("more")
        """,
    "folders": """
        os.rmdir("empty")
        assert not os.path.isdir("empty")
        os.mkdir("empty")
        for call, error in (
            (lambda: os.mkdir("empty"), FileExistsError),
            (lambda: os.mkdir("nowhere/x"), FileNotFoundError),
            (lambda: open("nowhere/x", "w"), FileNotFoundError),
            (lambda: open("notes.txt", "x"), FileExistsError),
            (lambda: open("data", "w"), IsADirectoryError),
            (lambda: os.rmdir("data"), OSError),
        ):
            try:
                call()
            except error:
                continue
            raise AssertionError(error)
        """,
    "changing into a new folder": """
        os.mkdir("new")
        os.chdir("new")
        open("in_it", "w").write("x")
        assert os.path.basename(os.getcwd()) == "new"
        assert open("../notes.txt").read() == "mine" and open(os.path.abspath("in_it")).read() == "x"
        os.chdir("..")
        assert os.listdir("new") == ["in_it"] and [names for _, _, names in os.walk("new")] == [["in_it"]]
        """,
    "low level and temporary files": """
        import tempfile
        descriptor = os.open("low", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"1")
        os.close(descriptor)
        assert open("low").read() == "1"
        with tempfile.NamedTemporaryFile(dir="data", suffix=".part") as file:
            file.write(b"1")
            assert os.path.exists(file.name)
        assert not os.path.exists(file.name)
        with tempfile.TemporaryDirectory() as scratch:
            pathlib.Path(scratch, "x").write_text("1")
        left = tempfile.mkdtemp()
        assert os.path.isdir(left)
        """,
    "archives, compression, logging, databases": """
        import bz2, csv, gzip, json, logging, pickle, shelve, sqlite3, tarfile
        with tarfile.open("t.tgz", "w:gz") as archive:
            archive.add("notes.txt")
        with gzip.open("g.gz", "wt") as file:
            file.write("x")
        with bz2.open("b.bz2", "wt") as file:
            file.write("x")
        json.dump({}, open("j.json", "w"))
        pickle.dump([1], open("p.pkl", "wb"))
        csv.writer(open("c.csv", "w")).writerow([1])
        logging.basicConfig(filename="train.log")
        logging.warning("seen")
        assert "seen" in open("train.log").read()
        database = sqlite3.connect("runs.db")
        database.execute("create table t (x)")
        database.commit()
        assert os.path.exists("runs.db")
        """,
    "numpy": """
        import numpy
        numpy.save("a.npy", numpy.zeros(3))
        assert numpy.load("a.npy").shape == (3,)
        numpy.savez("a.npz", x=numpy.zeros(3))
        numpy.savetxt("a.txt", numpy.zeros(3))
        numpy.ones(4).tofile("raw.bin")
        assert numpy.fromfile("raw.bin").shape == (4,)
        mapped = numpy.memmap("m.dat", mode="w+", dtype="uint8", shape=10)
        mapped[:] = 1
        mapped.flush()
        assert open("m.dat", "rb").read() == bytes([1] * 10)
        numpy.memmap("notes.txt", dtype="uint8")[0] = 0
        """,
    "compiled modules": "import local\nassert local.value == 1\n",
    "a forked worker": """
        pid = os.fork()
        if not pid:
            open("by_worker", "w").write("w")
            os._exit(0)
        os.waitpid(pid, 0)
        assert open("by_worker").read() == "w"
        """,
}


@pytest.mark.parametrize("what", WRITES)
def test_the_folder_is_as_it_was_and_the_script_sees_its_own_doing(
    what: str, folder: Path, sandboxed: Sandboxed
) -> None:
    before = picture(folder)

    effects = sandboxed(WRITES[what])

    assert picture(folder) == before
    assert all(effect["outcome"] in ("redirected", "held back") for effect in effects)
    assert effects or what == "compiled modules"


def test_it_is_so_under_other_pythons(
    other_python: str, folder: Path, sandboxed: Sandboxed, sandboxed_command: list[str]
) -> None:
    """Each version of the standard library reaches files by other calls."""
    sandboxed_command[0] = other_python
    before = picture(folder)

    for what in WRITES.keys() - {"numpy"}:
        sandboxed(WRITES[what])
        shutil.rmtree(folder.parent / "scratch")
        assert picture(folder) == before, what


def test_each_effect_is_noted_once_with_its_line(folder: Path, sandboxed: Sandboxed) -> None:
    effects = sandboxed(
        """
        for step in range(100):
            open("log.txt", "a").write("x")
        shutil.rmtree("out")
        """
    )

    removal = effects[-1]
    assert (removal["kind"], removal["target"], removal["outcome"]) == (
        "removal",
        str(folder / "out"),
        "held back",
    )
    assert removal["line"]["line"] == 5
    assert {effect["target"] for effect in effects[:-1]} == {str(folder / "log.txt")}
    assert effects[-2]["count"] == 64


def test_everything_happens_where_it_is_allowed(folder: Path, sandboxed: Sandboxed) -> None:
    effects = sandboxed(
        """
        os.makedirs("runs")
        open("runs/a", "w").write("1")
        os.rename("runs/a", "runs/b")
        os.remove("notes.txt")
        shutil.rmtree("out")
        """,
        "allow",
    )

    assert (folder / "runs" / "b").read_text() == "1"
    assert not (folder / "notes.txt").exists()
    assert not (folder / "out").exists()
    assert {effect["outcome"] for effect in effects} == {"allowed"}


def test_a_librarys_cache_is_written_for_real(folder: Path, sandboxed: Sandboxed, tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "fonts"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "import os\ncache = os.environ['XDG_CACHE_HOME']\nos.makedirs(cache + '/clip', exist_ok=True)\n"
        "open(cache + '/clip/list', 'w').write('x')\nopen('report.txt', 'w').write('x')\n"
        "os.makedirs(cache + '/fonts', exist_ok=True)\nopen(cache + '/fonts/list', 'w').write('x')\n"
    )

    (tmp_path / "cache" / "clip").mkdir(parents=True)
    effects = sandboxed(
        "import fonts\nassert open('report.txt').read() == 'x'",
        PYTHONPATH=str(library.parent),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
    )

    assert (tmp_path / "cache" / "clip" / "list").exists()
    assert not (tmp_path / "cache" / "fonts").exists()
    assert not (folder / "report.txt").exists()
    assert [Path(effect["target"]).name for effect in effects] == ["report.txt", "fonts", "list"]


def test_a_refused_write_is_told_by_its_path(folder: Path, sandboxed: Sandboxed) -> None:
    try:
        landlock.version()
    except landlock.Unavailable as reason:
        pytest.skip(str(reason))
    effects = sandboxed(
        """
        import _io
        from _skyline_child.sandbox import refusal
        os.chmod("data/a.txt", 0)
        for place in (os.path.abspath("notes.txt"), "/proc/1/mem/absent"):
            try:
                _io.FileIO(place, "w")
            except OSError as error:
                said = refusal.explanation(error)
                assert said == (
                    f"Skyline blocks writes of the run to {place}; run with --side-effects allow"
                    if "notes" in place else ""
                ), said
        """
    )
    assert ("file", str(folder / "notes.txt"), "refused") in {
        (effect["kind"], effect["target"], effect["outcome"]) for effect in effects
    }


def test_programs_and_hosts_are_noted_and_trackers_are_held_back(sandboxed: Sandboxed) -> None:
    effects = sandboxed(
        """
        import socket, subprocess
        subprocess.run(["true", "--api-key", "s3cr3t-value"])
        os.system("true")
        assert os.environ["WANDB_MODE"] == "disabled"
        for host in ("data.invalid", "api.wandb.ai", "localhost"):
            try:
                socket.create_connection((host, 9), timeout=1)
            except OSError:
                pass
        """
    )

    assert {(effect["kind"], effect["target"], effect["outcome"]) for effect in effects} == {
        ("program", "true", "allowed"),
        ("network", "data.invalid", "allowed"),
        ("tracker", "api.wandb.ai", "held back"),
    }


def test_a_run_that_a_save_starts_reaches_this_machine_alone(sandboxed: Sandboxed) -> None:
    effects = sandboxed(
        """
        import errno, socket, threading, urllib.request
        server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=lambda: server.accept()[0].sendall(b"here"), daemon=True).start()
        for host in ("127.0.0.1", "localhost", socket.gethostname()):
            socket.getaddrinfo(host, 80)
        assert socket.create_connection(server.getsockname(), 5).recv(4) == b"here"
        left, right = socket.socketpair()
        left.sendall(b"x")

        def refused(call, *args):
            try:
                return call(*args)
            except OSError as error:
                said = str(error)
                assert "set skyline.network to open" in said, said
        assert refused(socket.create_connection, ("data.invalid", 80)) is None
        assert refused(socket.gethostbyname, "named.invalid") is None
        assert refused(urllib.request.urlopen, "http://192.0.2.1/") is None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            assert refused(out.sendto, b"x", ("192.0.2.2", 9)) is None
            assert refused(out.connect, ("192.0.2.3", 9)) is None
        with socket.socket() as out:
            assert out.connect_ex(("192.0.2.4", 9)) == errno.EACCES
            assert refused(out.connect, ("direct.invalid", 9)) is None
        assert os.environ["HF_HUB_OFFLINE"] == "1"
        """,
        "redirect",
        "loopback",
    )

    refused = {effect["target"] for effect in effects if effect["kind"] == "network"}
    names = {"data.invalid", "named.invalid", "direct.invalid"}
    assert refused == names | {f"192.0.2.{number}" for number in (1, 2, 3, 4)}
    assert {effect["outcome"] for effect in effects} == {"refused"}


def test_a_folder_that_is_gone_and_no_descriptors_left(folder: Path, sandboxed: Sandboxed) -> None:
    before = picture(folder)
    sandboxed(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        kept = []
        try:
            while True:
                kept.append(open("log.txt", "a"))
        except OSError as error:
            assert error.errno == 24, error
        for file in kept:
            file.close()
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        try:
            open("x", "w")
        except OSError:
            pass
        """
    )
    assert picture(folder) == before


def test_what_one_rank_makes_another_finds(
    folder: Path, tmp_path: Path, sandboxed_command: list[str]
) -> None:
    (tmp_path / "scratch").mkdir()
    script = folder / "train.py"
    script.write_text(
        "import os, sys\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "os.makedirs('made/here', exist_ok=True)\n"
        "open('made/here/' + os.environ['RANK'], 'w').close()\n"
        "print(sorted(os.listdir('made/here')), flush=True)\n"
    )
    command = [*sandboxed_command, str(script), str(tmp_path / "scratch"), "redirect"]
    ranks = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:  # both stand before their first change
        assert rank.stdout is not None
        rank.stdout.readline()
    assert [rank.communicate("go\n")[0] for rank in ranks] == ["['0']\n", "['0', '1']\n"]
    assert not (folder / "made").exists()
