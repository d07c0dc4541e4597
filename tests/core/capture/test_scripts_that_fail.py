"""Scripts that cannot be profiled: each says why, and leaves no process behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.child.sandbox import landlock
from skyline.capture.request import Progress
from skyline.errors import BudgetExceeded, Cancelled, CaptureImpossible, ExitCode, ScriptFailed, UsageError
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.usefixtures("no_process_left_behind")]

Write = Callable[..., Path]
Run = Callable[..., Profile]


def test_no_such_file(tmp_path: Path, run: Run) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        run(tmp_path / "absent.py")


def test_a_syntax_error_is_told_with_its_line(script: Write, run: Run) -> None:
    with pytest.raises(ScriptFailed) as caught:
        run(script("import torch\ndef broken(:\n    pass\n"))
    assert caught.value.line == 2
    assert "SyntaxError" in caught.value.traceback


def test_an_exception_comes_with_the_scripts_own_traceback(script: Write, run: Run) -> None:
    with pytest.raises(ScriptFailed) as caught:
        run(
            script("import torch\ndef loss():\n    return torch.ones(2) @ torch.ones(3)\nloss().backward()\n")
        )
    assert caught.value.line == 3
    assert "in loss" in caught.value.traceback
    assert "skyline" not in caught.value.traceback
    assert caught.value.exit_code is ExitCode.SCRIPT_FAILED


def test_a_missing_module_names_the_interpreter_that_ran_the_script(script: Write, run: Run) -> None:
    with pytest.raises(ScriptFailed) as caught:
        run(script("import torch\nimport a_module_that_nobody_has\n"))
    assert caught.value.hint.startswith(f"{sys.executable} has no module a_module_that_nobody_has.")


def test_the_cause_of_an_error_of_a_library_has_its_next_step(script: Write, run: Run) -> None:
    text = """
    import torch
    try:
        raise RuntimeError("operator torchvision::nms does not exist")
    except RuntimeError as error:
        raise ImportError("a part cannot be imported") from error
    """
    with pytest.raises(ScriptFailed, match="a part cannot be imported") as caught:
        run(script(text))
    assert "torchvision does not fit" in caught.value.hint


def test_a_write_that_the_kernel_refused_is_told_as_ours(script: Write, run: Run, tmp_path: Path) -> None:
    try:
        landlock.version()
    except landlock.Unavailable as reason:
        pytest.skip(str(reason))
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ScriptFailed) as caught:
        run(script("import _io, torch\n_io.FileIO('notes.txt', 'w')\n"))
    assert f"Skyline blocks writes of the run to {path}" in caught.value.message
    assert "--side-effects allow" in caught.value.message
    assert path.read_text() == "mine"


def test_no_training_step_says_what_was_looked_for_and_seen(script: Write, run: Run) -> None:
    with pytest.raises(CaptureImpossible) as caught:
        run(script("import torch\ntorch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)\n"))
    assert "without a training step" in caught.value.message
    assert "1 optimizer made, none stepped" in caught.value.hint


def test_too_few_iterations(script: Write, run: Run) -> None:
    with pytest.raises(CaptureImpossible, match="only 2 training iterations"):
        run(
            script(
                """
                import torch
                w = torch.nn.Parameter(torch.ones(1))
                optimizer = torch.optim.SGD([w], lr=0.1)
                for _ in range(2):
                    (w * w).sum().backward()
                    optimizer.step()
                """
            )
        )


def test_an_endless_loop_is_ended_and_located(script: Write, run: Run) -> None:
    path = script("import time\ndef prepare():\n    while True:\n        time.sleep(0.01)\nprepare()\n")
    with pytest.raises(BudgetExceeded) as caught:
        run(path, timeout_s=5.0)
    assert "the script was in prepare" in caught.value.message
    assert caught.value.line in (3, 4)


def test_os_exit_is_told_with_its_status_and_the_next_step(script: Write, run: Run) -> None:
    with pytest.raises(ScriptFailed) as caught:
        run(script("import os, sys\nprint('last words', flush=True)\nos._exit(7)\n"))
    assert "status 7" in caught.value.message
    assert caught.value.traceback == "", "the lines were passed on: they would be seen twice"
    assert "os._exit" in caught.value.hint


def test_a_crash_in_native_code_is_told_as_its_signal(script: Write, run: Run) -> None:
    with pytest.raises(ScriptFailed, match="SIGSEGV"):
        run(script("import ctypes\nctypes.string_at(0)\n"))


def test_a_memory_limit_ends_the_run(script: Write, run: Run) -> None:
    with pytest.raises(BudgetExceeded, match="over the limit"):
        run(
            script("import torch, time\nkept = torch.ones(200_000_000)\ntime.sleep(60)\n"),
            memory_limit_bytes=600_000_000,
        )


def test_an_interpreter_without_torch(script: Write, run: Run, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    # -I and -S: the standard library alone, wherever the tests run.
    import sys

    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(CaptureImpossible, match="PyTorch is not installed"):
        run(script(), interpreter=str(bare))


def test_an_interpreter_that_is_not_there(script: Write, run: Run) -> None:
    with pytest.raises(CaptureImpossible, match="no interpreter"):
        run(script(), interpreter="/nowhere/python")


def test_cancel_ends_the_run_at_once(script: Write, run: Run) -> None:
    cancel = threading.Event()
    stages: list[Progress] = []
    threading.Timer(1.5, cancel.set).start()
    with pytest.raises(Cancelled):
        run(script("import time\ntime.sleep(60)\n"), cancel=cancel, stages=stages)


def test_a_talkative_script_is_passed_on_and_does_not_stall(script: Write, run: Run) -> None:
    output: list[str] = []
    run(
        script(
            """
            import torch
            w = torch.nn.Parameter(torch.ones(1))
            optimizer = torch.optim.SGD([w], lr=0.1)
            for _ in range(100_000):
                (w * w).sum().backward()
                optimizer.step()
                print("x" * 20_000)
            """
        ),
        output=output,
    )
    assert sum(map(len, output)) > 100_000
