"""The wheel where there is nothing but a Python: a root folder with its libraries, no compiler, no Node, no shell.

``pipx`` and ``uv`` install the wheel with its dependencies from the package index. Commands then run on a saved
profile, and the language server answers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDED = REPOSITORY / "tests" / "data" / "linear.profile.json.gz"
PYTHON = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
WAIT_S = 900
LIBRARIES = ("lib", "lib32", "lib64")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
FROM_OUTSIDE = ("hosts", "resolv.conf", "nsswitch.conf", "passwd")
DRIVER = """\
import json, os, shutil, subprocess, sys, venv
tool, wheel, profile = sys.argv[1:]
home = os.environ["HOME"]
seen = {"there": [name for name in ("cc", "gcc", "clang", "node", "npm", "sh") if shutil.which(name)]}

def run(*command, data=None):
    done = subprocess.run(command, input=data, capture_output=True, cwd=home)
    return {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode()}

def needed(*command):
    done = run(*command)
    if done["code"]:
        sys.exit(" ".join(command) + " failed: " + done["out"] + done["err"])

venv.create("/tools", with_pip=True)
needed("/tools/bin/python", "-m", "pip", "install", "-q", tool)
os.environ["PATH"] = "/tools/bin"
if tool == "pipx":
    needed("pipx", "install", wheel)
else:
    needed("uv", "tool", "install", "--python", sys.executable, wheel)
skyline = home + "/.local/bin/skyline"
open(home + "/train.py", "w").write("import torch\\n")
for name, words in {
    "version": ["--version"],
    "doctor": ["doctor"],
    "show": ["show", profile],
    "whatif": ["whatif", profile, "batch_size=32"],
    "plan": ["plan", "--cluster", "p4d.24xlarge", "--model", "llama3-8b", "--samples", "1M"],
    "profile": ["profile", "train.py"],
    "tui": ["tui", "--help"],
}.items():
    seen[name] = run(skyline, *words)
message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
end = json.dumps({"jsonrpc": "2.0", "method": "exit"})
frames = "".join(f"Content-Length: {len(one)}\\r\\n\\r\\n{one}" for one in (message, end))
seen["lsp"] = run(skyline, "lsp", data=frames.encode())
print(json.dumps(seen))
"""
ENTER = """\
set -e
root=$1
shift
for place in "$@"; do
  [ "$place" = -- ] && break
  mount --rbind "$place" "$root$place"
  shift
done
shift
exec chroot "$root" "$@"
"""


def why_not() -> str:
    """The reason why such a root cannot be made here; empty where it can."""
    if sys.platform != "linux":
        return "namespaces are Linux's"
    missing = [name for name in ("unshare", "chroot", "mount") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    tried = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"no namespaces: {tried.stderr.strip()}"
    with tempfile.TemporaryDirectory() as folder:
        probe = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "h11"]
        tried = subprocess.run(
            probe, env={**os.environ, "PIP_CONFIG_FILE": os.devnull}, capture_output=True, check=False
        )
    return "" if tried.returncode == 0 else "the package index cannot be reached"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (path,) = folder.glob("skyline_profiler-*.whl")
    return path


def bare_root(root: Path) -> list[str]:
    """Make the folders of a root; those that are to be mounted into it."""
    for name in ("tmp", "home", "files", "etc/ssl/certs", "usr/bin"):
        (root / name).mkdir(parents=True)
    mounted = ["/dev", "/proc", PYTHON if sys.base_prefix == "/usr" else sys.base_prefix]
    for name in LIBRARIES:
        place = Path("/", name)
        if place.is_symlink():
            (root / name).symlink_to(os.readlink(place))
        for folder in (place, Path("/usr", name)):
            if folder.is_dir() and not folder.is_symlink():
                mounted.append(str(folder))
    for place in mounted:
        target = root / place.lstrip("/")
        if Path(place).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.touch()
    for name in FROM_OUTSIDE:
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    shutil.copyfile(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    return mounted


@pytest.mark.long
@pytest.mark.timeout(2 * WAIT_S)
@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_the_wheel_installs_and_works_without_compiler_and_node(
    tool: str, wheel: Path, tmp_path: Path
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    root = tmp_path / "root"
    mounted = bare_root(root)
    for file in (wheel, RECORDED):
        shutil.copyfile(file, root / "files" / file.name)
    (root / "files" / "driver.py").write_text(DRIVER)
    inside = (PYTHON, "/files/driver.py", tool, f"/files/{wheel.name}", f"/files/{RECORDED.name}")
    done = subprocess.run(
        ["unshare", "-Urm", "--fork", "sh", "-c", ENTER, "sh", str(root), *mounted, "--", *inside],
        env={
            "HOME": "/home",
            "PATH": "/nowhere:/usr/sbin:/usr/bin:/sbin:/bin",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_CERT": str(CERTIFICATES),
            "SSL_CERT_FILE": str(CERTIFICATES),
            "UV_PYTHON_DOWNLOADS": "never",
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen.pop("there") == [], "the root has more than a Python"
    assert not any("Traceback" in one["err"] for one in seen.values()), seen
    assert seen["version"]["out"].startswith("skyline ")
    assert "PyTorch" in seen["doctor"]["out"]
    assert "per iteration" in seen["show"]["out"]
    assert "batch_size=32" in seen["whatif"]["out"]
    assert "tokens" in seen["plan"]["out"]
    for name in ("version", "show", "whatif", "plan", "tui"):
        assert seen[name]["code"] == 0, seen[name]
    assert seen["profile"]["code"] == 3, seen["profile"]
    assert "torch" in seen["profile"]["err"].lower()
    assert '"capabilities"' in seen["lsp"]["out"]
