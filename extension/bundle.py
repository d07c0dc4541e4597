"""Puts Skyline's server and all that it needs, but for NumPy, into ``bundled/libs``: for one platform, all Pythons.

``python bundle.py [--target linux-x64]``. Every distribution is there once, in the one version that
``requirements/constraints.txt`` pins for the oldest Python, so every Python gets the same. Of the compiled parts,
those that work on any Python are there once and the others once for each; their names hold the version, so they lie
side by side.

NumPy is the environment's own. It would be nine tenths of the package, 16 MB for each version of Python, and next to
every environment with PyTorch has it; ``bundled/interpreter_fit.py`` says what to do where it is missing.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Mapping
from email.parser import Parser
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
BUNDLED = HERE / "bundled"
CONSTRAINTS = REPOSITORY / "requirements" / "constraints.txt"

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TARGETS: Mapping[str, tuple[str, ...]] = {
    "linux-x64": tuple(f"manylinux{old}_x86_64" for old in ("_2_28", "_2_27", "_2_17", "2014")),
    "linux-arm64": tuple(f"manylinux{old}_aarch64" for old in ("_2_28", "_2_27", "_2_17", "2014")),
    "darwin-x64": ("macosx_11_0_x86_64",),
    "darwin-arm64": ("macosx_11_0_arm64",),
}
"""Platforms as VS Code names them, and as wheels do, newest C library first."""

NOT_BUNDLED = {
    "numpy": "the environment's own",
    "textual": "the terminal interface's, which no editor starts",
    "markdown-it-py": "rich's, to render Markdown",
    "h11": "that of `skyline serve`, which no editor starts",
    "starlette": "that of `skyline serve`",
    "uvicorn": "that of `skyline serve`",
}
WORK_WITHOUT_COMPILED = {"markupsafe", "watchdog"}
"""They are slower without their compiled part, or watch files in another way: it may be missing for some Python."""

LEFT_OUT = (
    "skyline_tui/*",
    "*.data/*",
    "*.c",
    "*.pyc",
    "*.pyi",
    "*/tests/*",
    # Only Python is coloured.
    "pygments/lexers/[!_]*.py",
    "pygments/lexers/_*_builtins.py",
    "pygments/styles/[!_]*.py",
)
KEPT = ("pygments/lexers/python.py", "pygments/lexers/special.py", "pygments/styles/default.py")
METADATA = ("METADATA", "entry_points.txt", "licenses/*", "LICENSE*")
"""What is kept of a distribution's metadata: its version, what it registers, and on which terms it may be passed on."""


def main() -> None:
    """Fill ``bundled/libs`` and try what lies there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=sorted(TARGETS), default=this_machine())
    target = parser.parse_args().target
    if target is None:
        parser.error(f"this machine is none of {', '.join(TARGETS)}; name one of them with --target")
    for old in [BUNDLED / "libs", *BUNDLED.glob("cp3*"), *BUNDLED.rglob("__pycache__")]:
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = gather(build_wheel(Path(scratch) / "own"), Path(scratch) / "wheels", target)
        for wheel in wheels:
            unpack(wheel, BUNDLED / "libs")
    if target == this_machine():
        try_out()
    files = [path for path in (BUNDLED / "libs").rglob("*") if path.is_file()]
    size_mb = sum(path.stat().st_size for path in files) / 1e6
    print(
        f"bundled {len(files)} files, {size_mb:.1f} MB, for {target} and Python {PYTHONS[0]} to {PYTHONS[-1]}"
    )


def this_machine() -> str | None:
    """The target that is this machine; None where it is none of them."""
    system = {"Linux": "linux", "Darwin": "darwin"}.get(platform.system())
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine())
    return f"{system}-{machine}" if f"{system}-{machine}" in TARGETS else None


def build_wheel(folder: Path) -> Path:
    """Skyline's own wheel, from this checkout."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(REPOSITORY))
    return next(folder.glob("*.whl"))


def gather(own: Path, folder: Path, target: str) -> list[Path]:
    """Skyline's wheel, those of all that it needs for the oldest Python, and compiled ones for the others too."""
    markers = environment(target)
    pinned = pins(CONSTRAINTS.read_text(encoding="utf-8").splitlines(), markers)
    wheels = [own]
    seen = set(NOT_BUNDLED)
    waiting = needed(own, markers)
    while wanted := sorted(waiting - seen):
        unpinned = [name for name in wanted if name not in pinned]
        if unpinned:
            sys.exit(f"bundle.py: {', '.join(unpinned)} must be pinned in {CONSTRAINTS}")
        seen.update(wanted)
        found = download(
            [f"{name}=={pinned[name]}" for name in wanted], folder / PYTHONS[0], PYTHONS[0], target
        )
        waiting = {name for wheel in found for name in needed(wheel, markers)}
        wheels += found
    for name, version in sorted(
        parse_wheel_filename(wheel.name)[:2] for wheel in wheels if is_for_one_python(wheel)
    ):
        for python in PYTHONS[1:]:
            try:
                wheels += download([f"{name}=={version}"], folder / python / name, python, target)
            except subprocess.CalledProcessError:
                missing = f"bundle.py: there is no wheel of {name} {version} for Python {python} on {target}"
                if name not in WORK_WITHOUT_COMPILED:
                    sys.exit(missing)
                print(f"{missing}; it works there without its compiled part", file=sys.stderr)
    return wheels


def environment(target: str) -> dict[str, str]:
    """What the markers of requirements are about, on the oldest Python of a target."""
    system = "Darwin" if target.startswith("darwin") else "Linux"
    return {
        "python_version": PYTHONS[0],
        "python_full_version": f"{PYTHONS[0]}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "platform_system": system,
        "sys_platform": system.lower(),
        "extra": "",
    }


def pins(constraints: Iterable[str], markers: Mapping[str, str]) -> dict[str, str]:
    """The version of each distribution that holds in this environment."""
    found: dict[str, str] = {}
    for line in constraints:
        text, _, marker = line.partition("#")[0].partition(";")
        if text.strip() and (not marker.strip() or Marker(marker).evaluate(dict(markers))):
            name, _, version = text.strip().partition("==")
            found[canonicalize_name(name)] = version
    return found


def needed(wheel: Path, markers: Mapping[str, str]) -> set[str]:
    """The distributions that a wheel asks for in this environment."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
        return asked_for(archive.read(name).decode(), markers)


def asked_for(metadata: str, markers: Mapping[str, str]) -> set[str]:
    """Those that a distribution's metadata ask for in this environment, without any of its extras."""
    asked = [Requirement(text) for text in Parser().parsestr(metadata).get_all("Requires-Dist", [])]
    return {
        canonicalize_name(one.name)
        for one in asked
        if one.marker is None or one.marker.evaluate(dict(markers))
    }


def download(requirements: Collection[str], folder: Path, python: str, target: str) -> list[Path]:
    """The wheels of these, as this version of Python on this platform would get them."""
    chosen = ["--only-binary=:all:", "--no-deps", "--dest", str(folder), "--python-version", python]
    chosen += ["--implementation", "cp"]
    for abi in ("cp" + python.replace(".", ""), "abi3", "none"):
        chosen += ["--abi", abi]
    for name in TARGETS[target]:
        chosen += ["--platform", name]
    before = set(folder.glob("*.whl"))
    pip("download", *chosen, *requirements)
    return sorted(set(folder.glob("*.whl")) - before)


def is_for_one_python(wheel: Path) -> bool:
    """Whether a wheel is compiled for one version of Python alone."""
    return all(tag.abi not in {"abi3", "none"} for tag in parse_wheel_filename(wheel.name)[3])


def unpack(wheel: Path, libs: Path) -> None:
    """What is needed of a wheel; what is there already must be the same."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/") or not is_kept(name):
                continue
            path, data = libs / name, archive.read(name)
            if path.exists() and path.read_bytes() != data:
                sys.exit(f"bundle.py: {wheel.name} has another {name} than the wheel for Python {PYTHONS[0]}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def is_kept(name: str) -> bool:
    """Whether a file of a wheel comes along."""
    top, _, rest = name.partition("/")
    if top.endswith(".dist-info"):
        return any(fnmatch.fnmatchcase(rest, pattern) for pattern in METADATA)
    return name in KEPT or not any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def try_out() -> None:
    """Start the server's command line with nothing else within reach than NumPy."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        sys.exit("bundle.py: NumPy is needed to try what was bundled; install it into this environment")
    installed = Path(spec.origin).parent.parent
    with tempfile.TemporaryDirectory() as lonely:
        for name in ("numpy", "numpy.libs"):
            if (installed / name).exists():
                (Path(lonely) / name).symlink_to(installed / name)
        command = [sys.executable, "-S", "-B", str(BUNDLED / "run_skyline.py"), "--bundled", "lsp", "--help"]
        env = {**os.environ, "PYTHONPATH": lonely}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=lonely, env=env)


def pip(*arguments: str) -> None:
    """Run pip, quietly; raises CalledProcessError where it fails, with what it had to say on the screen."""
    quiet = ["--disable-pip-version-check", "--quiet", "--quiet", "--no-input"]
    subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], check=True, env={**os.environ, "PYTHONPATH": ""}
    )


if __name__ == "__main__":
    main()
