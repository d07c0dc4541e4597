"""Compiles the simulated GPU against this environment's PyTorch, once, and makes an interpreter that has it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata, util
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PARTS = ("backend", "kineto", "device")
_FLAGS = ("-O1", "-std=c++20", "-fPIC", "-w")


class NotBuildable(Exception):
    """There is no compiler, or this PyTorch came without what is compiled against."""


def interpreter(folder: Path) -> Path:
    """An interpreter in ``folder`` like this one, in which PyTorch finds a GPU. Raises NotBuildable."""
    library = _library()
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    python = folder / "bin" / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    home = os.path.dirname(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (packages / "simulated_gpu.so").symlink_to(library)
    shutil.copy(_HERE / "boot.py", packages / "simulated_gpu_boot.py")
    ours = sysconfig.get_paths()["purelib"]
    (packages / "simulated_gpu.pth").write_text(f"{ours}\nimport simulated_gpu_boot\n")
    return python


def _library() -> Path:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if sys.platform != "linux" or compiler is None:
        raise NotBuildable("the simulated GPU needs Linux and a C++ compiler (g++, or what CXX names)")
    found = util.find_spec("torch")
    if found is None or found.origin is None:
        raise NotBuildable("PyTorch is not installed")
    torch = Path(found.origin).parent
    if not (torch / "include" / "kineto" / "libkineto.h").is_file():
        raise NotBuildable("this PyTorch came without Kineto's headers")
    if (torch / "lib" / "libtorch_cuda.so").exists():
        raise NotBuildable("this PyTorch was built for real GPUs")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyline-simulated-gpu"
    built = cache / f"{metadata.version('torch')}-{sysconfig.get_platform()}-{_digest(torch)}.so"
    if not built.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _compile(compiler, torch, built)
    return built


def _digest(torch: Path) -> str:
    digest = hashlib.sha256(str(torch).encode())
    for source in sorted(_HERE.glob("*.[ch]*")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, torch: Path, built: Path) -> None:
    # Several test processes may do it at the same time: each puts a whole file in place.
    work = built.with_suffix(f".{os.getpid()}")
    work.mkdir()

    def run(*command: str) -> None:
        done = subprocess.run([compiler, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotBuildable(f"the simulated GPU does not compile here: {done.stderr[:2000]}")

    def compiled(part: str) -> str:
        target = str(work / f"{part}.o")
        run(*_FLAGS, f"-I{torch / 'include'}", "-c", str(_HERE / f"{part}.cpp"), "-o", target)
        return target

    try:
        with ThreadPoolExecutor(len(_PARTS)) as pool:
            objects = list(pool.map(compiled, _PARTS))
        libraries = torch / "lib"
        run("-shared", *objects, "-o", str(work / "all.so"), f"-L{libraries}", "-ltorch_cpu", "-lc10",
            f"-Wl,-rpath,{libraries}")  # fmt: skip
        (work / "all.so").replace(built)
    finally:
        shutil.rmtree(work, ignore_errors=True)
