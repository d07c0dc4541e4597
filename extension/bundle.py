"""Copy Skyline's server and its dependencies, except NumPy, into ``bundled/libs``, for one platform and all Pythons.

``python bundle.py [--target linux-x64]``. Each distribution is included once, in the version that
``requirements/constraints.txt`` pins for the oldest Python, so every Python uses the same version. Compiled modules
that work on any Python are included once, the others once per Python version. File names contain the version, so they
can share a folder.

NumPy comes from the environment. It would be nine tenths of the package, 16 MB for each version of Python, and almost
every environment with PyTorch has it. ``bundled/interpreter_fit.py`` tells the user what to do if it is missing.
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
"""VS Code's platform names and the matching wheel platforms, newest C library first."""

NOT_BUNDLED = {
    "numpy": "comes from the environment",
    "argcomplete": "for completion in a shell",
    "textual": "for the terminal UI, which editors do not start",
    "markdown-it-py": "used by rich to render Markdown",
    "h11": "for `skyline serve`, which editors do not start",
    "starlette": "for `skyline serve`",
    "uvicorn": "for `skyline serve`",
}
WORK_WITHOUT_COMPILED = {"markupsafe", "watchdog"}
"""Packages that also work without their compiled modules, slower or by polling. These may be missing for a Python."""

LEFT_OUT = (
    "skyline_tui/*",
    # For `skyline serve`.
    "skyline/browser/static/served-page.js",
    "*.data/*",
    "*.c",
    "*.pyc",
    "*.pyi",
    "*/tests/*",
    # Only Python source is highlighted.
    "pygments/lexers/[!_]*.py",
    "pygments/lexers/_*_builtins.py",
    "pygments/styles/[!_]*.py",
)
KEPT = ("pygments/lexers/python.py", "pygments/lexers/special.py", "pygments/styles/default.py")
METADATA = ("METADATA", "entry_points.txt", "licenses/*", "LICENSE*")
"""Metadata files of a distribution to keep: its version, entry points and licences."""


def main() -> None:
    """Fill ``bundled/libs`` and test the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=sorted(TARGETS), default=this_machine())
    target = parser.parse_args().target
    if target is None:
        parser.error(f"this machine is not one of {', '.join(TARGETS)}; choose one of them with --target")
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
    """The target for this machine. None if it is not supported."""
    system = {"Linux": "linux", "Darwin": "darwin"}.get(platform.system())
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine())
    return f"{system}-{machine}" if f"{system}-{machine}" in TARGETS else None


def build_wheel(folder: Path) -> Path:
    """Build Skyline's own wheel from this checkout."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(REPOSITORY))
    return next(folder.glob("*.whl"))


def gather(own: Path, folder: Path, target: str) -> list[Path]:
    """Download all required wheels: for the oldest Python, and compiled ones for the other versions too."""
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
                print(f"{missing}; it works there without its compiled module", file=sys.stderr)
    return wheels


def environment(target: str) -> dict[str, str]:
    """The values of requirement markers for the oldest Python on a target."""
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
    """The pinned version of each distribution in this environment."""
    found: dict[str, str] = {}
    for line in constraints:
        text, _, marker = line.partition("#")[0].partition(";")
        if text.strip() and (not marker.strip() or Marker(marker).evaluate(dict(markers))):
            name, _, version = text.strip().partition("==")
            found[canonicalize_name(name)] = version
    return found


def needed(wheel: Path, markers: Mapping[str, str]) -> set[str]:
    """The distributions that a wheel requires in this environment."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
        return asked_for(archive.read(name).decode(), markers)


def asked_for(metadata: str, markers: Mapping[str, str]) -> set[str]:
    """The distributions that the metadata require in this environment, without extras."""
    asked = [Requirement(text) for text in Parser().parsestr(metadata).get_all("Requires-Dist", [])]
    return {
        canonicalize_name(one.name)
        for one in asked
        if one.marker is None or one.marker.evaluate(dict(markers))
    }


def download(requirements: Collection[str], folder: Path, python: str, target: str) -> list[Path]:
    """Download the wheels of the requirements for this Python version and platform."""
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
    """True if a wheel is compiled for a single Python version."""
    return all(tag.abi not in {"abi3", "none"} for tag in parse_wheel_filename(wheel.name)[3])


def unpack(wheel: Path, libs: Path) -> None:
    """Unpack the needed files of a wheel. Files that exist already must be identical."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/") or not is_kept(name):
                continue
            path, data = libs / name, archive.read(name)
            if path.exists() and path.read_bytes() != data:
                sys.exit(
                    f"bundle.py: {wheel.name} has a different {name} than the wheel for Python {PYTHONS[0]}"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def is_kept(name: str) -> bool:
    """True if a file of a wheel is included."""
    top, _, rest = name.partition("/")
    if top.endswith(".dist-info"):
        return any(fnmatch.fnmatchcase(rest, pattern) for pattern in METADATA)
    return name in KEPT or not any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def try_out() -> None:
    """Start the bundled command line with no other package importable than NumPy."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        sys.exit("bundle.py: NumPy is needed to test the bundle; install it into this environment")
    installed = Path(spec.origin).parent.parent
    with tempfile.TemporaryDirectory() as lonely:
        for name in ("numpy", "numpy.libs"):
            if (installed / name).exists():
                (Path(lonely) / name).symlink_to(installed / name)
        command = [sys.executable, "-S", "-B", str(BUNDLED / "run_skyline.py"), "--bundled", "lsp", "--help"]
        env = {**os.environ, "PYTHONPATH": lonely}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=lonely, env=env)


def pip(*arguments: str) -> None:
    """Run pip quietly. Raises CalledProcessError if it fails; pip then prints its error."""
    quiet = ["--disable-pip-version-check", "--quiet", "--quiet", "--no-input"]
    subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], check=True, env={**os.environ, "PYTHONPATH": ""}
    )


if __name__ == "__main__":
    main()
