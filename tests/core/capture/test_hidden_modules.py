"""Modules that the resident process imports ahead of the scripts: no script can tell before it imports them itself."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skyline.capture.process import ENTRY, Start, Starter, start_fresh
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_parent import WarmParent
from skyline.capture.warm_pool import WarmPool

PLAIN_START = True
pytestmark = [
    pytest.mark.capture,
    pytest.mark.xdist_group("hidden modules"),
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux alone"),
]

PACKAGES = {
    "seen.py": "def usual(): pass\ndef own(): pass\n",
    "compiler/__init__.py": "import seen, os\nfrom . import rules\nfrom algebra import number\n"
    "seen.usual = lambda: 'the compiler'\nseen.own = lambda: 'the compiler'\n"
    "os.environ['SET_BY_IMPORT'] = '1'\n"
    "import warnings\nwarnings.simplefilter('error', BytesWarning)\n",
    "compiler/rules.py": "import os, algebra.number\nvalue = os.environ.get('RULES', 'none')\n",
    "compiler/later.py": "",
    "algebra/__init__.py": "import importlib\nimportlib.import_module('algebra.exact')\n",
    "algebra/exact.py": "",
    "algebra/number.py": "import csv\n",
    "settings.py": "import os, algebra\nos.getenv('LEVEL')\n",
}

PROGRAM = """
import json, os, runpy, sys
runpy.run_path(sys.argv[1])["load_package"]()
from _skyline_child import hidden_modules
import seen
usual, own, finders = seen.usual, seen.own, len(sys.meta_path)
fit = hidden_modules.prepare(("compiler", "settings"))
NAMES = {"compiler", "algebra", "settings"}
there = lambda: [name for name in sys.modules if name.partition(".")[0] in NAMES]
told = []
hidden_modules.watch_variables(told.append)
found = [fit, hidden_modules.variables_read(), there(), seen.usual is usual, "SET_BY_IMPORT" in os.environ]
exec(sys.argv[2])
found += [there(), told, len(sys.meta_path) - finders]
print(json.dumps(found))
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def after(packages: Path, script: str, program: str = PROGRAM) -> list[object]:
    ran = subprocess.run(
        [sys.executable, "-c", program, str(ENTRY), script],
        capture_output=True,
        text=True,
        cwd=packages,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


HIDDEN = [True, ["LEVEL", "RULES"], [], True, False]
ALGEBRA = ["algebra", "algebra.exact", "algebra.number"]
COMPILER = ["compiler", "compiler.rules"]

OTHER = "os.mkdir('own'); open('own/algebra.py', 'w').close(); sys.path.insert(0, 'own'); "

FILTERS = """
import warnings
own = ("error", None, BytesWarning, None, 0)
assert own not in warnings.filters
import compiler
assert own in warnings.filters
"""


@pytest.mark.parametrize(
    ("script", "there", "told", "finders"),
    [
        ("pass", [], [], 1),
        ("import algebra; assert not hasattr(algebra, 'missing')", ["algebra", "algebra.exact"], [], 1),
        # ``settings`` needs no more than these.
        ("import algebra.number; assert algebra.number.csv", ALGEBRA, [], 1),
        ("import settings", ["algebra", "algebra.exact", "settings"], [], 1),
        ("import compiler; assert compiler.rules.value == 'none'", COMPILER + ALGEBRA, [], 1),
        ("from compiler import rules, later; import settings", None, [], 0),
        ("os.environ['RULES'] = '1'; import compiler", COMPILER + ALGEBRA, [["RULES"]], 1),
        # The script's folder has a package of the same name.
        (OTHER + "import compiler", COMPILER + ALGEBRA, [["algebra"]], 1),
        # Told once, and not at all of variables that the import does not read.
        ("os.environ['OTHER'] = '1'; import compiler", COMPILER + ALGEBRA, [], 1),
        ("os.environ['RULES'] = '1'; hidden_modules.watch_variables(None); import settings", None, [], 1),
        # Functions that the import replaces in other modules come with it, unless the script has replaced them.
        ("import compiler; assert seen.usual() == seen.own() == 'the compiler'", COMPILER + ALGEBRA, [], 1),
        (
            "seen.own = len; import compiler; assert seen.own is len and seen.usual()",
            COMPILER + ALGEBRA,
            [],
            1,
        ),
        (
            FILTERS,
            COMPILER + ALGEBRA,
            [],
            1,
        ),
        ("import compiler; assert os.environ['SET_BY_IMPORT'] == '1'", COMPILER + ALGEBRA, [], 1),
        (
            "import compiler; assert compiler.__spec__.loader.path == compiler.__file__",
            COMPILER + ALGEBRA,
            [],
            1,
        ),
    ],
)
def test_an_import_brings_back_the_module_with_what_it_needs(
    packages: Path, script: str, there: list[str] | None, told: list[list[str]], finders: int
) -> None:
    found = after(packages, script)
    assert found[:5] == HIDDEN
    assert there is None or sorted(there) == sorted(found[5])  # type: ignore[type-var, arg-type]
    assert found[6:] == [told, finders]


def test_all_that_was_imported_is_the_same_object_afterwards(packages: Path) -> None:
    script = "import settings, compiler.rules, algebra.number as number\nassert compiler.rules.algebra.number is number"
    assert after(packages, script)[6:] == [[], 0]


@pytest.mark.parametrize(
    ("module", "fit"),
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            False,
        ),
        ("kept = open(__file__)", False),
        ("import subprocess\nkept = subprocess.Popen(['sleep', '5'], stdout=-3, stderr=-3)", False),
        ("open(__file__).close()", True),
        ("raise RuntimeError('not here')", True),
    ],
)
def test_an_import_that_leaves_more_than_modules_is_not_fit_to_be_forked(
    packages: Path, module: str, fit: bool
) -> None:
    (packages / "settings.py").write_text(module)
    assert after(packages, "pass")[0] is fit


RESIDENT = """#!{python}
import json, os, sys
from multiprocessing.connection import Connection
control = Connection(os.dup(int(sys.argv[3])))
control.send_bytes(json.dumps({{"event": "ready", "files": [], "variables": ["RULES"]}}).encode())
control.poll(None)
"""


def test_a_resident_process_whose_imports_read_other_variables_is_replaced(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(RESIDENT.format(python=sys.executable))
    interpreter.chmod(0o755)
    parent = WarmParent(Start(str(interpreter), tmp_path, {"RULES": "1", "OTHER": "1"}, "", b""))
    assert parent.wait_ready(60.0, threading.Event())
    assert parent.is_current({"RULES": "1"})
    assert not parent.is_current({"RULES": "2", "OTHER": "1"})
    assert not parent.is_current({})
    parent.close()


STATE = """
import json, logging, os, sys, threading, warnings
import torch, torch.profiler
KEPT = {}
def state(moment):
    ours = lambda one: type(one).__module__.startswith("_skyline_child")
    KEPT[moment] = {
        "modules": sorted(
            name for name in sys.modules
            if name.partition(".")[0] not in {*sys.stdlib_module_names, "_skyline_child"}
        ),
        "compiler": ["torch._dynamo" in sys.modules, "_dynamo" in vars(torch), "_inductor" in vars(torch)],
        "seed": torch.manual_seed is torch.random.manual_seed,
        "threads": [thread.name for thread in threading.enumerate()],
        "filters": [str(one[:3]) for one in warnings.filters],
        "loggers": {
            name: [len(one.handlers), one.level]
            for name, one in logging.root.manager.loggerDict.items()
            if isinstance(one, logging.Logger) and (one.handlers or one.level)
        },
        "environment": {
            name: value for name, value in os.environ.items()
            if name != "SKYLINE_RUN" and "/skyline-" not in value
        },
        "finders": sum(not ours(one) for one in sys.meta_path), "cuda": torch.cuda.is_initialized(),
        "drawn": [torch.manual_seed(7) and None, torch.rand(2).tolist()],
    }
    KEPT[moment + ", hidden"] = sum(hasattr(one, "hidden") for one in sys.meta_path)
state("at first")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
state("with an optimizer")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
    optimizer.step()
state("with a recording")
compiled = torch.compile(model, backend="eager")
compiled(torch.ones(2, 4))
counters = torch._dynamo.utils.counters
KEPT["compiled"] = {name: dict(counters[name]) for name in ("frames", "stats", "graph_break")}
KEPT["settings"] = [torch._dynamo.config.suppress_errors, torch._inductor.config.max_autotune]
print("STATE" + json.dumps(KEPT) + "=====", flush=True)
for _ in range(100_000):
    compiled(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[WarmPool]:
    made = WarmPool()
    yield made
    made.close()


def state(script: Path, starter: Starter) -> dict[str, dict[str, object]]:
    printed: list[str] = []
    request = CaptureRequest(
        script, working_directory=script.parent, settle_s=0.1, batch_points=0, trials=False, timeout_s=60.0
    )
    profile = capture(request, progress=lambda _: None, output=printed.append, starter=starter)
    assert profile.iteration is not None
    assert "torch.compile" in profile.iteration.styles
    return json.loads("".join(printed).rpartition("STATE")[2].partition("=====")[0])


MOMENTS = ("at first", "with an optimizer", "with a recording")


def test_a_forked_run_sees_the_compiler_when_a_fresh_one_does(
    script: Callable[..., Path], pool: WarmPool
) -> None:
    path = script(STATE)
    fresh, forked = state(path, start_fresh), state(path, pool.start)
    for moment in MOMENTS:
        assert forked[moment] == fresh[moment]
    assert [fresh[moment]["compiler"] for moment in MOMENTS] == [
        [False, False, False],
        fresh["with an optimizer"]["compiler"],
        [True, True, True],
    ]
    assert (fresh["at first, hidden"], forked["at first, hidden"]) == (0, 1)
    assert forked["with a recording, hidden"] == 0
    assert forked["compiled"] == fresh["compiled"]
    assert forked["settings"] == fresh["settings"] == [False, False]


@pytest.mark.parametrize("known", [True, False])
def test_variables_that_the_script_sets_count_as_in_a_fresh_run(
    script: Callable[..., Path], pool: WarmPool, known: bool
) -> None:
    """Either the script's own text names them, or a module of it does."""
    name = "TORCHDYNAMO_SUPPRESS_ERRORS"
    if known:
        source = f"import os\nos.environ['{name}'] = '1'\n"
    else:
        (script("", "settings.py")).write_text(f"import os\nos.environ['{name}'] = '1'\n")
        source = "import settings\n"
    found = state(script(source + STATE), pool.start)
    assert found["settings"] == [True, False]
    # No module was there to be given.
    assert found["at first, hidden"] == 0
