"""Runs that a resident process forks: like fresh ones in everything that the script can see, and as easy to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from skyline.capture.process import Start, Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.session import capture
from skyline.capture.warm_parent import ForkedProcess
from skyline.capture.warm_pool import WarmPool
from skyline.errors import CaptureImpossible, SkylineError
from skyline.trace.profile import Profile

pytestmark = [
    pytest.mark.capture,
    pytest.mark.xdist_group("warm start"),
    pytest.mark.skipif(sys.platform != "linux", reason="runs are forked on Linux alone"),
]

Write = Callable[..., Path]

TRAINING = """
import torch
w = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(100_000):
    (w * w).sum().backward()
    optimizer.step()
"""

WORLD = """
import json, os, random, signal, sys, threading
import numpy, torch
names = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE]
own = lambda name, value: name == "SKYLINE_RUN" or "/skyline-" in value  # each run has a folder of its own
print("WORLD" + json.dumps({
    "argv": sys.argv, "path": sys.path, "name": __name__, "file": __file__, "folder": os.getcwd(),
    "environment": {name: value for name, value in os.environ.items() if not own(name, value)},
    "threads": torch.get_num_threads(), "inter": torch.get_num_interop_threads(),
    "signals": [str(signal.getsignal(name)) for name in names], "wakeup": signal.set_wakeup_fd(-1),
    "python_threads": [thread.name for thread in threading.enumerate()],
    "leads_its_session": os.getsid(0) == os.getpid(), "stdout": sys.stdout.encoding, "input": sys.stdin.read(),
    "terminal": list(os.get_terminal_size(0)),
    "main": sys.modules["__main__"].__file__, "cuda": torch.cuda.is_initialized(),
}) + "=====" + json.dumps([random.random(), numpy.random.rand(), torch.rand(1).item()]) + "-----", flush=True)
"""


BEFORE: set[psutil.Process] = set()
"""Processes that other tests of this worker keep."""


@pytest.fixture(scope="module", autouse=True)
def before() -> None:
    BEFORE.update(psutil.Process().children(recursive=True))


@pytest.fixture(scope="module")
def warm_pool() -> Iterator[WarmPool]:
    """One for all tests that do no harm to it: the import is what takes long."""
    made = WarmPool(most=1)
    yield made
    made.close()
    nothing_is_left()


@pytest.fixture
def own_nursery() -> Iterator[WarmPool]:
    made = WarmPool(most=1)
    yield made
    made.close()


def test_the_next_run_does_not_wait_for_a_resident_process_that_did_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr("skyline.capture.warm_pool._READY_TIMEOUT_S", 0.2)
    fresh: list[Start] = []
    warm_pool = WarmPool(fallback=fresh.append)  # type: ignore[arg-type]
    start = Start(str(hanging), tmp_path, {}, "", b"", threading.Event())
    first = warm_pool.pids
    warm_pool.start(start)
    assert (first, warm_pool.pids, fresh) == ((), (), [start])
    warm_pool.close()
    nothing_is_left()


def test_a_run_is_over_though_nobody_tells_how_it_ended() -> None:
    """As where the process that forked it was stopped."""
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    forked = ForkedProcess(child.pid, child.stdout)
    with pytest.raises(subprocess.TimeoutExpired):
        forked.wait(0.1)
    child.kill()
    assert forked.wait() == forked.poll() == -signal.SIGKILL
    child.communicate()


def nothing_is_left() -> None:
    deadline = time.monotonic() + 30
    while children := [
        one for one in psutil.Process().children(recursive=True) if one not in BEFORE and not _is_tracker(one)
    ]:
        assert time.monotonic() < deadline, children
        time.sleep(0.05)


def _is_tracker(process: psutil.Process) -> bool:
    """True if it is the process that multiprocessing keeps for as long as the test worker lives."""
    try:
        return any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return True


def run(
    path: Path, starter: Starter, *arguments: str, stages: list[Progress] | None = None, **options: object
) -> tuple[Profile, str]:
    brief: dict[str, object] = {"settle_s": 0.1, "batch_points": 0, "trials": False, "timeout_s": 60.0}
    settings = {**brief, **options}
    request = CaptureRequest(path, tuple(arguments), working_directory=path.parent, **settings)  # type: ignore[arg-type]
    printed: list[str] = []
    said: list[Progress] = [] if stages is None else stages
    return capture(request, progress=said.append, output=printed.append, starter=starter), "".join(printed)


def world(printed: str) -> tuple[dict[str, object], list[float]]:
    seen, _, rest = printed.partition("WORLD")[2].partition("=====")
    return json.loads(seen), json.loads(rest.partition("-----")[0])


def test_a_forked_run_sees_what_a_fresh_one_sees(script: Write, warm_pool: WarmPool) -> None:
    path = script(WORLD + TRAINING)
    fresh, drawn_fresh = world(run(path, start_fresh, "--epochs", "3")[1])
    first, drawn_first = world(run(path, warm_pool.start, "--epochs", "3")[1])
    second, drawn_second = world(run(path, warm_pool.start, "--epochs", "3")[1])
    assert first == fresh
    assert second == fresh
    assert fresh["argv"] == [str(path), "--epochs", "3"]
    # Values that a fresh process seeds by chance differ from fork to fork too.
    for drawn in zip(drawn_fresh, drawn_first, drawn_second, strict=True):
        assert len(set(drawn)) == 3
    assert len(warm_pool.pids) == 1


def test_one_process_imports_for_all_runs_and_nothing_is_left_open(
    script: Write, warm_pool: WarmPool
) -> None:
    path = script(TRAINING)
    profile, _ = run(path, warm_pool.start)
    assert profile.times.steps_ms
    (resident,) = warm_pool.pids
    files, own = psutil.Process(resident).num_fds(), psutil.Process().num_fds()
    for _ in range(3):
        run(path, warm_pool.start)
    assert warm_pool.pids == (resident,)
    assert psutil.Process(resident).num_fds() == files
    assert psutil.Process().num_fds() == own
    assert psutil.Process(resident).children() == []
    # It holds torch, and has run nothing of the script.
    assert psutil.Process(resident).memory_info().rss > 50_000_000


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import os\nprint('last words', flush=True)\nos._exit(7)\n", "status 7"),
        ("import ctypes\nctypes.string_at(0)\n", "SIGSEGV"),
        ("import os, signal\nos.killpg(0, signal.SIGKILL)\n", "SIGKILL"),
        ("def broken(:\n    pass\n", "SyntaxError"),
    ],
)
def test_how_a_forked_run_ended_is_known(
    script: Write, warm_pool: WarmPool, source: str, message: str
) -> None:
    with pytest.raises(SkylineError, match=message):
        run(script(source), warm_pool.start)
    assert len(warm_pool.pids) == 1


def test_a_script_that_kills_its_parent_costs_only_its_own_run(script: Write, warm_pool: WarmPool) -> None:
    run(script(TRAINING), warm_pool.start)
    before = warm_pool.pids
    # Since Landlock's version 6 the kernel refuses the signal; before, the run ends with it.
    with pytest.raises(SkylineError, match=r"SIGKILL|Operation not permitted"):
        run(
            script("import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)\n"),
            warm_pool.start,
        )
    assert warm_pool.pids == before
    assert run(script(TRAINING), warm_pool.start)[0].times.steps_ms
    assert warm_pool.pids == before


@pytest.fixture
def at_start(tmp_path: Path, preloaded: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has every interpreter that a run starts execute these lines first, and start fast."""

    def execute(source: str) -> None:
        folder = tmp_path / "at start"
        folder.mkdir()
        usual = Path(preloaded, "sitecustomize.py").read_text()
        (folder / "faster.py").write_text(usual)
        (folder / "sitecustomize.py").write_text(f"import faster\n{source}")
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return execute


def test_a_fork_may_forget_where_signals_write_to(
    script: Write, own_nursery: WarmPool, at_start: Callable[[str], None]
) -> None:
    """As in every process that has imported asyncio, from Python 3.12 on."""
    at_start("import os, signal\nos.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))\n")
    own = "print('pipes', sum(os.path.realpath(f'/proc/self/fd/{n}').count('pipe:') for n in range(64)))\n"
    path = script(f"import os\n{own}{TRAINING}")
    profile, printed = run(path, own_nursery.start)
    assert (bool(profile.times.steps_ms), profile.notes) == (True, ())
    # The pipe of the signals does not stay open in the run.
    assert printed.splitlines()[0] == run(path, start_fresh)[1].splitlines()[0]


def test_a_fork_that_fails_before_the_script_gives_way_to_a_fresh_interpreter(
    script: Write, own_nursery: WarmPool, at_start: Callable[[str], None]
) -> None:
    at_start(
        "import os\n"
        "def fail(*arguments): raise OSError(9, 'no way into it')\n"
        "os.register_at_fork(after_in_child=lambda: setattr(os, 'chdir', fail))\n"
        "sys.addaudithook(lambda name, given: None)\n"
    )
    profile, printed = run(script("print('begun', flush=True)\n" + TRAINING), own_nursery.start)
    assert profile.times.steps_ms
    assert [note for note in profile.notes if "a fresh interpreter ran it instead" in note]
    # Nothing of the failure is shown as the script's output.
    assert printed.split() == ["begun"]


def test_a_failure_before_the_script_is_told_with_its_traceback(
    script: Write, own_nursery: WarmPool, at_start: Callable[[str], None]
) -> None:
    at_start(
        "import os\n"
        "def fail(*arguments): raise OSError(9, 'no session for it')\n"
        "os.register_at_fork(after_in_child=lambda: setattr(os, 'setsid', fail))\n"
    )
    for starter in (own_nursery.start, start_fresh):
        with pytest.raises(
            CaptureImpossible, match=r"before the script began: OSError.*no session for it"
        ) as told:
            run(script(TRAINING), starter)
        assert "continue_below" in told.value.hint


def test_an_install_beside_torch_replaces_the_resident_process(
    script: Write, own_nursery: WarmPool, tmp_path: Path, preloaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "more" / "site-packages"
    installed.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{preloaded}")
    path = script("try:\n    import new_package\nexcept ImportError:\n    new_package = None\n" + TRAINING)
    run(path, own_nursery.start)
    before = own_nursery.pids
    (installed / "new_package.py").write_text("print('here it is')\n")
    assert "here it is" in run(path, own_nursery.start)[1]
    assert len(own_nursery.pids) == 1
    assert own_nursery.pids != before
    # Other variables that count at import make it another one; no more are kept than were asked for.
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert run(path, own_nursery.start)[0].environment.intraop_threads == 2
    assert len(own_nursery.pids) == 1


def test_without_torch_the_reason_is_the_usual_one(
    script: Write, warm_pool: WarmPool, tmp_path: Path
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(CaptureImpossible, match="PyTorch is not installed"):
        run(script(TRAINING), warm_pool.start, interpreter=str(bare))


def test_closing_ends_the_runs_that_are_under_way(script: Write, own_nursery: WarmPool) -> None:
    path = script("import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(100)\n")
    printed: list[str] = []
    failed: list[BaseException] = []

    def profile() -> None:
        request = CaptureRequest(path, working_directory=path.parent, batch_points=0)
        try:
            capture(request, progress=lambda _: None, output=printed.append, starter=own_nursery.start)
        except SkylineError as error:
            failed.append(error)

    thread = threading.Thread(target=profile)
    thread.start()
    deadline = time.monotonic() + 60
    while "\n" not in "".join(printed).partition("pid ")[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int("".join(printed).split()[1])
    own_nursery.close()
    thread.join(20)
    assert len(failed) == 1
    # A run ends by itself where the resident process had to be killed, which a busy machine brings about.
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # From now on there is nobody to fork.
    assert run(script(TRAINING), own_nursery.start)[0].times.steps_ms
    assert own_nursery.pids == ()


def test_the_first_figures_come_before_the_profile(script: Write, warm_pool: WarmPool) -> None:
    script("rate = 0.1\n", "settings.py")
    source = "import time\nimport settings\ntime.sleep(0.2)\nbatch_size = 16\n" + TRAINING.replace(
        "(w * w).sum()", "(w * torch.ones(batch_size, 1)).sum()"
    )
    path = script(source)
    stages: list[Progress] = []
    profile, _ = run(path, warm_pool.start, stages=stages)
    known = [progress.known for progress in stages if progress.known is not None]
    assert known[0].iteration_ms is None
    assert known[0].loop_line == source.splitlines().index("for _ in range(100_000):") + 1
    first = known[-1]
    assert first.iteration_ms is not None
    assert first.script_s is not None
    assert first.script_s > 0.2
    assert stages.index(next(one for one in stages if one.known is first)) < len(stages) - 1
    # A module that was only imported is as much a part of the run as the lines that take time.
    assert str(path.parent / "settings.py") in first.files
    assert str((path.parent / "settings.py").resolve()) in [source.path for source in profile.sources]
