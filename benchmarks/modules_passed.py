"""The modules of the product that one request passes: a measure of how many places a reader must know.

A module is passed if one of its functions is entered after start. Module bodies, class bodies and calls during an
import are excluded, and so are methods that Python generates. Three requests run on a CPU, each in its own process:

- ``profile``: ``skyline profile SCRIPT``, the process that the user starts, without the training process.
- ``drag``: twice the batch size with ``amp``, on the language server's state of a script, without the transport.
- ``whatif amp``: ``skyline whatif PROFILE amp``. On a CPU without AVX-512, ``amp`` does not apply, and the answer
  passes 21 modules fewer: no model of narrow products, no search in the source.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from machine import Machine
from result_file import RESULTS, table, write

import skyline as package
from skyline.cli.main import main as skyline
from skyline.trace import store
from skyline.whatif.question import Choice, Question
from skyline_lsp.state import ScriptState, prepare

_SCRIPT = Path(__file__).resolve().parent.parent / "examples" / "recommender.py"
_REQUESTS = ("profile", "drag", "whatif amp")
_CHECKOUT = Path(package.__file__).resolve().parent.parent
_ROOTS = tuple(f"{_CHECKOUT / root}/" for root in ("skyline", "lsp", "tui", "predictors"))


@contextlib.contextmanager
def passed() -> Iterator[set[str]]:
    """A context that collects the files of the product in which any thread enters a function."""
    files: set[str] = set()
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in seen or not code.co_filename.startswith(_ROOTS):
            return
        if _while_importing(frame):
            return
        seen.add(code)
        files.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _while_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(_ROOTS):
            return True
        frame = frame.f_back
    return False


def command(*arguments: str) -> set[str]:
    """The files that a command of ``skyline`` passes. Raises RuntimeError if it fails."""
    with contextlib.redirect_stdout(io.StringIO()), passed() as files:
        code = skyline(arguments)
    if code:
        raise RuntimeError(f"skyline {' '.join(arguments)} ended with {code}")
    return files


def drag(profile: Path) -> set[str]:
    """The files that the question of a drag passes on a server that holds the profile, without the transport."""
    loaded = store.load(profile)
    state = ScriptState(profile.as_uri(), str(profile))
    state.accept(prepare(loaded))
    question = Question(2 * (loaded.batch_size or 1), (Choice("amp"),))
    with passed() as files:
        state.estimate(question)
    return files


def request(name: str, script: Path) -> list[str]:
    """The modules that a request passes, relative to the repository. ``profile`` comes first: the others need one."""
    if name == "profile":
        files = command("profile", "--quiet", "--steps", "20", str(script))
    else:
        saved = store.latest(script)
        assert saved is not None
        files = drag(saved) if name == "drag" else command("whatif", "--quiet", str(saved), "amp")
    return sorted(str(Path(one).relative_to(_CHECKOUT)) for one in files)


def measured(checkout: Path) -> dict[str, list[str]]:
    """The modules that each request passes in a checkout, in its own process, whose caches are empty at the start."""
    folders = [checkout, *(checkout / name for name in ("lsp", "tui", "predictors"))]
    with tempfile.TemporaryDirectory() as folder:
        script = shutil.copy(_SCRIPT, folder)
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "SKYLINE_DATA_DIR": folder, "XDG_CACHE_HOME": folder,
        }  # fmt: skip
        found: dict[str, list[str]] = {}
        for name in _REQUESTS:
            words = [sys.executable, __file__, "--request", name, "--script", script]
            done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
            found[name] = json.loads(done.stdout)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="also count an earlier version")
    parser.add_argument("--request", choices=_REQUESTS, help="print the modules of one request as JSON")
    parser.add_argument("--script", type=Path, help="the script of --request")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.request:
        print(json.dumps(request(options.request, options.script)))
        return 0
    machine = Machine.here()
    now = measured(_CHECKOUT)
    before = measured(options.before.resolve()) if options.before else {}
    rows = [[name, str(len(before[name])) if name in before else "", str(len(now[name]))] for name in now]
    groups = Counter("/".join(Path(one).parts[:2]) for one in now["whatif amp"])
    folders = table(["folder", "modules"], [[name, str(count)] for name, count in groups.most_common()])
    body = f"{table(['request', 'before', 'now'], rows)}\n\n`whatif amp` by folder:\n\n{folders}\n\n"
    body += "\n\n".join((__doc__ or "").strip().split("\n\n")[1:])
    figures = {"before": before, "now": now}
    print(write("modules_passed", "Modules passed", machine, body, figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
