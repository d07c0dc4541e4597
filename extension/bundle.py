"""Puts Skyline and all that it needs into ``bundled/``, so that a person's environment needs PyTorch alone.

``python bundle.py [--python 3.11 ...]``: packages without compiled parts go to ``bundled/libs``, the others to
``bundled/cp311`` and so on, one folder for each version of Python. By default for the Python that runs this.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
BUNDLED = HERE / "bundled"
CONSTRAINTS = REPOSITORY / "requirements" / "constraints.txt"
OLDEST_LINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
COMPILED = (".so", ".pyd", ".dylib")
LEFT_OUT = ("tests", "__pycache__", "bin", "include")


def main() -> None:
    """Fill ``bundled/`` and try what lies there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument(
        "--python", nargs="+", default=[own], metavar="VERSION", help="for these versions of Python"
    )
    versions = parser.parse_args().python
    for old in [BUNDLED / "libs", *BUNDLED.glob("cp3*")]:
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = build_wheel(Path(scratch) / "wheel")
        trees = {tag(version): Path(scratch) / tag(version) for version in versions}
        for version in versions:
            install(wheel, version, trees[tag(version)], foreign=version != own)
        arrange(trees)
    if own in versions:
        try_out()
    print(f"bundled for Python {', '.join(versions)}: {size_mb(BUNDLED):.0f} MB unpacked")


def build_wheel(folder: Path) -> Path:
    """Skyline's own wheel, from this checkout."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(REPOSITORY))
    return next(folder.glob("*.whl"))


def install(wheel: Path, version: str, target: Path, *, foreign: bool) -> None:
    """The wheel with everything it depends on, as one version of Python would have it."""
    chosen = ["--only-binary=:all:", "--no-compile", "--target", str(target)]
    if foreign:
        chosen += ["--python-version", version, "--implementation", "cp"]
        for abi in (tag(version), "abi3", "none"):
            chosen += ["--abi", abi]
        for platform in platforms():
            chosen += ["--platform", platform]
    constraints = ["-c", str(CONSTRAINTS)] if not foreign and CONSTRAINTS.exists() else []
    pip("install", *chosen, *constraints, str(wheel))
    for name in LEFT_OUT:
        for folder in sorted(target.rglob(name)):
            if folder.is_dir():
                shutil.rmtree(folder)
    for stub in target.rglob("*.pyi"):
        stub.unlink()


def platforms() -> list[str]:
    """The platform of this machine as wheels name it, oldest C library first."""
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if here.startswith("linux_"):
        return [f"{name}_{here.removeprefix('linux_')}" for name in OLDEST_LINUX]
    return [here]


def arrange(trees: dict[str, Path]) -> None:
    """What is the same for all versions and has no compiled part goes to ``libs``, the rest to each its own."""
    libs = BUNDLED / "libs"
    libs.mkdir(parents=True)
    names = sorted({entry.name for tree in trees.values() for entry in tree.iterdir()})
    for name in names:
        copies = [tree / name for tree in trees.values()]
        shared = all(copy.exists() and same(copies[0], copy) for copy in copies)
        if shared and not any(path.suffix in COMPILED for path in [copies[0], *copies[0].rglob("*")]):
            shutil.move(copies[0], libs / name)
            continue
        for version, tree in trees.items():
            if (tree / name).exists():
                (BUNDLED / version).mkdir(exist_ok=True)
                shutil.move(tree / name, BUNDLED / version / name)


def same(left: Path, right: Path) -> bool:
    """Whether two files, or two folders all the way down, are equal."""
    if left.is_file() or right.is_file():
        return left.is_file() and right.is_file() and filecmp.cmp(left, right, shallow=False)
    compared = filecmp.dircmp(left, right)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    return all(same(left / name, right / name) for name in [*compared.common_files, *compared.common_dirs])


def try_out() -> None:
    """Start it with nothing else within reach: no environment, no site packages."""
    python = getattr(sys, "_base_executable", sys.executable)
    command = [python, "-E", "-S", str(BUNDLED / "run_skyline.py"), "--bundled", "lsp", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())


def tag(version: str) -> str:
    """``cp311`` of ``3.11``."""
    return "cp" + version.replace(".", "")


def size_mb(folder: Path) -> float:
    """All files below a folder, in MB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def pip(*arguments: str) -> None:
    """Run pip, quietly; what goes wrong ends this."""
    quiet = ["--disable-pip-version-check", "--quiet", "--quiet", "--no-input"]
    subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], check=True, env={**os.environ, "PYTHONPATH": ""}
    )


if __name__ == "__main__":
    main()
