"""Other versions of Python than the one that runs the tests, as far as the standard library alone shows it."""

from __future__ import annotations

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("skyline", "lsp", "tui", "predictors", "extension/bundled", "examples")
CHILD = REPOSITORY / "skyline" / "capture" / "child"


def run(python: str, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [python, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMPILE = """
import pathlib, sys
for folder in sys.argv[1:]:
    for file in sorted(pathlib.Path(folder).rglob("*.py")):
        compile(file.read_bytes(), str(file), "exec")
        print(file)
"""


def test_every_module_compiles_without_a_warning(other_python: str) -> None:
    compiled = run(other_python, COMPILE, *(str(REPOSITORY / package) for package in PACKAGES))
    assert str(CHILD / "warm.py") in compiled.splitlines()


IMPORT = """
import importlib, pkgutil, runpy, sys
runpy.run_path(sys.argv[1] + "/__main__.py")["load_package"]()
package = sys.modules["_skyline_child"]
for module in pkgutil.walk_packages(package.__path__, "_skyline_child."):
    if module.name.endswith("__main__") or ".startup" in module.name:
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in ("torch", "numpy"):
            raise
    else:
        print(module.name)
"""


def test_the_child_imports_all_that_needs_no_torch(other_python: str) -> None:
    imported = run(other_python, IMPORT, str(CHILD)).split()
    needed = ("channel", "program", "ranks.spawned", "sandbox.sandbox", "subreaper", "variant", "warm")
    assert {f"_skyline_child.{name}" for name in needed} <= {*imported}


SERVE = """
import asyncio, json, os, runpy, socket, sys, types
from multiprocessing import reduction
from multiprocessing.connection import Connection
runpy.run_path(sys.argv[1] + "/__main__.py")["load_package"]()
from _skyline_child import warm

ours, theirs = socket.socketpair()
resident = os.fork()
if resident == 0:
    ours.close()
    # In place of PyTorch, of which a fork takes the generator of random numbers.
    sys.modules["torch"] = types.SimpleNamespace(default_generator=types.SimpleNamespace(seed=int))
    warm._IMPORTED = ("asyncio",)
    print("run at", *warm.serve(theirs.detach()), flush=True)
    os._exit(7)
theirs.close()
control = Connection(os.dup(ours.fileno()))
assert json.loads(control.recv_bytes())["event"] == "ready"
request = dict(address="here", key="00", directory=os.getcwd(), environment=dict(os.environ), number=1)
for _ in range(2):
    control.send_bytes(json.dumps(request).encode())
    reduction.sendfds(ours, [1, 0])
    told = [json.loads(control.recv_bytes()) for _ in range(2)]
    assert [one["event"] for one in told] == ["forked", "ended"] and told[1]["status"] == 7, told
control.close()
ours.close()
os.waitpid(resident, 0)
"""


def test_the_resident_process_forks_runs_and_hears_of_their_end(other_python: str) -> None:
    """Runs are forked from a process with asyncio, whose hook resets the wake-up descriptor of signals from 3.12 on."""
    told = run(other_python, SERVE, str(CHILD))
    assert told.splitlines() == ["run at here b'\\x00'"] * 2
