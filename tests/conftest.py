"""Fixtures and settings that tests of every area share."""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from skyline.capture.warm_pool import WarmPool

REPOSITORY = Path(__file__).resolve().parent.parent

# More processes compute here than there are cores: threads of PyTorch that wait must not keep a core busy meanwhile.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# An example has no time limit: on a busy machine the same example takes ten times as long in the next run.
hypothesis.settings.register_profile("skyline", deadline=None)
hypothesis.settings.load_profile("skyline")


_PLACES = pytest.StashKey[dict[Path, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Have each worker of a whole run begin with modules of its own, and find the others compiled by the rest.

    A fresh checkout has no compiled tests. Workers in step would each compile all of them, in ten seconds.
    """
    # Few of the objects that collection makes are ever freed: searching them for garbage takes a second.
    gc.disable()
    worker = getattr(config, "workerinput", None)
    if worker is None or [Path(one).resolve() for one in config.args] != [REPOSITORY / "tests"]:
        return
    modules = sorted((REPOSITORY / "tests").rglob("test_*.py"), key=lambda path: path.parts)
    first = int(worker["workerid"].removeprefix("gw")) * len(modules) // worker["workercount"]
    config.args = [str(path) for path in modules[first:] + modules[:first]]
    config.stash[_PLACES] = {path: place for place, path in enumerate(modules)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give every test a second chance; the closing summary names those that needed it.

    A shared machine takes the processor away for seconds at a time, and among thousands of tests one meets that. A test
    that fails for a reason of its own fails again.
    """
    if places := config.stash.get(_PLACES, None):
        # Workers must agree on the order.
        items.sort(key=lambda item: places[item.path])
    again, together = pytest.mark.flaky(reruns=2, reruns_delay=1), pytest.mark.xdist_group("forked servers")
    for item in items:
        item.add_marker(again)
        if _has_forked_servers(item):
            # The process that they are forked from takes seconds to start.
            item.add_marker(together)


def _has_forked_servers(item: pytest.Item) -> bool:
    """True if a test starts language servers that are forked."""
    if sys.platform != "linux":
        return False
    # Few of the thousands of tests have such servers: the fast questions come first.
    if "forked_servers" not in getattr(item, "fixturenames", ()) and (
        f"{os.sep}tui{os.sep}" not in str(item.path) or item.get_closest_marker("capture") is None
    ):
        return False
    return not any(item.iter_markers("fresh")) and not any(item.iter_markers("xdist_group"))


def pytest_collection_finish() -> None:
    """Leave what stays for the whole session out of later garbage collections, which the terminal UI asks for often."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the ledger of the person who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKYLINE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_devices_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the GPUs and prices of the person who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        empty = tmp_path_factory.mktemp("config") / "devices.toml"
        empty.touch()
        patch.setenv("SKYLINE_DEVICES", str(empty))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Measured traces and latencies that are too large for the repository.

    ``SKYLINE_SHARED_DATA`` names the folder; without it, ``shared/data`` next to the checkout is tried.
    """
    named = os.environ.get("SKYLINE_SHARED_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        origin = "SKYLINE_SHARED_DATA names it" if named else "set SKYLINE_SHARED_DATA to where it is"
        pytest.skip(f"no measured data at {folder}: {origin}")
    return folder


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def all_servers() -> Iterator[Any]:
    """The language servers of this worker, forked from one process."""
    servers = _loaded("forked_servers", REPOSITORY / "tests" / "forked_servers.py").ForkedServers()
    yield servers
    servers.close()


@pytest.fixture
def forked_servers(request: pytest.FixtureRequest) -> Any:
    """Starts language servers quickly; None for tests of fresh ones, and off Linux, where none can be forked."""
    fresh = request.node.get_closest_marker("fresh") is not None or sys.platform != "linux"
    return None if fresh else request.getfixturevalue("all_servers")


@pytest.fixture(scope="session")
def preloaded() -> str:
    """The folder on whose account, in ``PYTHONPATH``, interpreters import PyTorch and end faster."""
    return str(REPOSITORY / "tests" / "preloaded")


@pytest.fixture
def brief_start(preloaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreters import and end as fast as can be, and all compute on one thread.

    Threads that wait for each other on busy cores make tiny iterations a hundred times longer.
    """
    monkeypatch.setenv("PYTHONPATH", preloaded)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def resident() -> Iterator[WarmPool]:
    """Runs of all tests of a worker are forked from one process that has imported torch, as an editor's are."""
    from skyline.capture.warm_pool import WarmPool

    warm_pool = WarmPool()
    yield warm_pool
    warm_pool.close()


PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""The versions that the documentation names."""
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def _python(version: str) -> str | None:
    """An interpreter of this version, from the PATH or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = (shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))))
    for path in filter(None, found):
        # Shims of pyenv on the PATH fail for versions that are not chosen.
        told = subprocess.run([path, "-c", _VERSION], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return path
    return None


@pytest.fixture(
    scope="session", params=[version for version in PYTHONS if version != platform.python_version()[:4]]
)
def other_python(request: pytest.FixtureRequest) -> str:
    """An interpreter of another version than the one that runs the tests; it has the standard library alone."""
    found = _python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} on the PATH or in pyenv")
    return found


@pytest.fixture(scope="session")
def gpu_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter in which PyTorch finds a GPU: the simulated one of ``simulated_gpu``, compiled the first time."""
    builder = _loaded("simulated_gpu_build", REPOSITORY / "tests" / "simulated_gpu" / "build.py")
    try:
        return builder.interpreter(tmp_path_factory.mktemp("gpu") / "environment")
    except builder.NotBuildable as missing:
        pytest.skip(str(missing))
