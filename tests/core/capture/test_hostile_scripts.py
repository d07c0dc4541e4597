"""Scripts that do what no training script should: each ends in a profile or in one clear message."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.errors import SkylineError
from skyline.trace.profile import Profile

# All run in the background of the first one that is asked for: two workers would run all of them twice.
pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("hostile scripts")]

TRAIN = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1_000_000):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


# Every process of the script is then known by its working folder.
HERE = "import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\n"


@dataclass(frozen=True)
class Case:
    """Code before the training loop, and how it must end: '' with a profile, else words of the message."""

    before: str
    ends: str = ""
    after: str = TRAIN
    files: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, object] = field(default_factory=dict[str, object])


CASES = {
    "aborts": Case("import os\nos.abort()", "signal SIGABRT"),
    "divides by zero in native code": Case(
        "import os, signal\nos.kill(os.getpid(), signal.SIGFPE)", "signal SIGFPE"
    ),
    "is killed as if out of memory": Case(
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"
    ),
    "overflows the stack": Case("def f():\n    f()\nf()", "RecursionError"),
    "kills its whole group": Case("import os, signal\nos.kill(0, signal.SIGKILL)", "SIGKILL"),
    "ignores SIGTERM and never ends": Case(
        "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        "No training step within 2 s",
        options={"timeout_s": 2.0},
    ),
    "never lets go of the interpreter": Case(
        "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')",
        "does not answer, so it is inside native code",
        options={"timeout_s": 2.0},
    ),
    "closes every descriptor": Case("import os\nos.closerange(3, 4096)", "closed file descriptors"),
    "closes its output": Case("import os, sys\nsys.stdout.close()\nos.close(2)"),
    "replaces its output": Case("import io, sys\nsys.stdout = sys.stderr = io.StringIO()"),
    "takes its output away": Case("import sys\nsys.stdout = sys.stderr = None"),
    "traces itself": Case("import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)"),
    "has another clock": Case("import time\ntime.perf_counter = time.monotonic = time.time = lambda: 0.0"),
    "has another json and open": Case(
        "import builtins, json\njson.dumps = json.loads = json.dump = None\nbuiltins.open = lambda *a, **k: 1 / 0"
    ),
    "neighbours named like the standard library": Case(
        "", files=dict.fromkeys(("queue.py", "json.py", "signal.py"), "raise ImportError('not this one')")
    ),
    "leaves pipes in place of its notes": Case(
        "import os\nfolder = os.path.dirname(os.environ['TMPDIR'])\n"
        "for name in ('effects.jsonl', 'fetched.jsonl', 'protection.json', 'last-words'):\n"
        "    path = os.path.join(folder, name)\n"
        "    os.path.exists(path) and os.unlink(path)\n"
        "    os.mkfifo(path)\n"
        "open('notes.txt', 'w').write('redirected')\n"
    ),
    "clears the environment": Case("import os\nos.environ.clear()"),
    "stands in a folder that is gone": Case("import os\nos.mkdir('x')\nos.chdir('x')\nos.rmdir('../x')"),
    "removes its folder": Case(
        "import os, shutil\nshutil.rmtree(os.path.dirname(os.path.abspath(__file__)))"
    ),
    "changes its own file": Case("open(__file__, 'w').write('raise SystemExit(9)')"),
    "patches the optimizer": Case(
        "import torch\nold = torch.optim.SGD.step\ntorch.optim.SGD.step = lambda self, *a: old(self, *a)"
    ),
    "sets torch up otherwise": Case(
        "import torch\ntorch.set_default_device('cpu')\ntorch.use_deterministic_algorithms(True)\n"
        "torch.set_num_threads(1)\ntorch.autograd.set_detect_anomaly(True)\ntorch.set_default_dtype(torch.float64)"
    ),
    "profiles itself with cProfile": Case("import cProfile\ncProfile.Profile().enable()"),
    "uses torch's profiler": Case(
        "import torch\nplan = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=0)\n"
        "profiler = torch.profiler.profile(schedule=plan, on_trace_ready=lambda p: p.key_averages())\nprofiler.start()",
        after=TRAIN + "    profiler.step()\n",
    ),
    "uses torch's profiler for a while": Case(
        "import torch\nwith torch.profiler.profile() as p:\n    torch.ones(2).sum()\np.key_averages().table()"
    ),
    "catches everything": Case(
        "",
        after="""
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    try:
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    except:
        pass
""",
    ),
    "leaves a process in a session of its own": Case(
        "import subprocess, sys\ncode = 'import os, time; os.setsid(); time.sleep(600)'\n"
        "subprocess.Popen([sys.executable, '-S', '-c', code])"
    ),
    "leaves a daemon": Case(
        "import os, time\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        time.sleep(600)\n"
        "    os._exit(0)"
    ),
    "starts too many processes": Case(
        "import os, time\nfor _ in range(60):\n    if not os.fork():\n        time.sleep(600)\ntime.sleep(600)",
        "started more than 30 processes",
        options={"process_limit": 30},
    ),
    "writes too much": Case(
        "import time\nfile = open('big', 'wb')\nfor _ in range(600):\n    file.write(bytes(1 << 20))\n"
        "    file.flush()\n    time.sleep(0.01)\ntime.sleep(60)",
        "of files, over the limit of 50.0 MB",
        options={"scratch_limit_bytes": 50_000_000},
    ),
    "prints without end": Case("", after=TRAIN + "    print('x' * 1_000_000)\n"),
    "becomes another program": Case("import os\nos.execv('/bin/true', ['true'])", "exited with status 0"),
    "ends with a pool that nobody shuts down": Case(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(int).result()",
        after=TRAIN.replace("1_000_000", "60"),
        options={"timeout_s": 10.0},
    ),
    "is empty": Case("", "without a training step", after=""),
    "is a very long line": Case("x = [" + "1, " * 20_000 + "]"),
    "is a million lines": Case("\n" * 1_000_000),
    "uses up all descriptors": Case(
        "import os\nkept = []\nwhile True: kept.append(os.open('/dev/null', 0))", "Too many open files"
    ),
}


@dataclass
class Outcome:
    """The end of a case."""

    profile: Profile | None
    error: SkylineError | None
    left: list[str]


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, preloaded: str
) -> Iterator[dict[str, Future[Outcome]]]:
    """All cases, two at a time, forked from a process that has imported torch."""
    warm_pool = WarmPool()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", preloaded)
        yield {
            name: pool.submit(_run, case, tmp_path_factory.mktemp("hostile"), warm_pool.start)
            for name, case in CASES.items()
        }
    warm_pool.close()


def _run(case: Case, folder: Path, starter: Starter) -> Outcome:
    script = folder / "train.py"
    script.write_text(HERE + case.before + "\n" + textwrap.dedent(case.after))
    for name, text in case.files.items():
        (folder / name).write_text(text)
    files = sorted(path.name for path in folder.iterdir())
    options = {
        "settle_s": 0.1,
        "steps": 3,
        "recorded": 1,
        "batch_points": 0,
        "timeout_s": 30.0,
        **case.options,
    }
    request = CaptureRequest(script, (), sys.executable, folder.parent, **options)  # type: ignore[arg-type]
    profile = error = None
    try:
        profile = capture(request, progress=lambda _: None, starter=starter)
    except SkylineError as caught:
        error = caught
    left = [name for name in sorted(path.name for path in folder.iterdir()) if name not in files]
    return Outcome(profile, error, left + _processes_in(folder))


def _processes_in(folder: Path) -> list[str]:
    """Processes whose working folder it is, once they had a moment to go."""
    deadline = time.monotonic() + 3
    while True:
        found: list[str] = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(str(folder)):
                    found.append(repr(process))
            except (psutil.Error, OSError):
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_it_should(name: str, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[name].result()
    wanted = CASES[name].ends

    assert outcome.left == []
    if wanted:
        assert outcome.error is not None
        assert wanted in outcome.error.message
    else:
        assert outcome.error is None, outcome.error
        assert outcome.profile is not None
        assert outcome.profile.times.steps_ms
