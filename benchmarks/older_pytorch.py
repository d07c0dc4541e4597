"""Profiles the examples under earlier versions of PyTorch, each in its own interpreter.

``--pythons`` names interpreters with PyTorch. The page has one row for each, from a run of
``tests/e2e/test_older_pytorch.py`` under it. Without ``--pythons`` the page states that no such version was run, and
which parts the other tests cover.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from machine import Machine
from result_file import RESULTS, table, write

_REPOSITORY = Path(__file__).resolve().parent.parent
_TEST = "tests/e2e/test_older_pytorch.py"
_NONE = """\
No earlier version of PyTorch was run. For Linux, PyPI has builds of 2.1.2, 2.4.1 and 2.7.1 only for CUDA (670
to 821 MB each, plus gigabytes of CUDA libraries). The profilers of these versions give some facts in another
form. Tests read these forms from recorded traces of real GPUs with 2.1, 2.4 and 2.13
(`tests/core/capture/test_replayed_traces.py`), and from event objects of these forms
(`tests/core/capture/test_gpu_activity.py`)."""


def tried(python: str) -> list[str]:
    """A row: the version, and the number of examples that were profiled correctly."""
    asked = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        return ["none", "", "an interpreter without PyTorch"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "long", f"--junitxml={report}", _TEST]
        environment = {**os.environ, "SKYLINE_OTHER_PYTHONS": python}
        subprocess.run(command, cwd=_REPOSITORY, env=environment, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        case.get("name", "").replace(python, "")
        for case in cases
        if {"failure", "error", "skipped"} & {one.tag for one in case}
    ]
    return [asked.stdout.strip(), f"{len(cases) - len(failed)} of {len(cases)}", "; ".join(failed) or "none"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pythons", nargs="*", default=[], metavar="PYTHON", help="interpreters with PyTorch"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    rows = [tried(python) for python in options.pythons]
    body = table(["PyTorch", "examples profiled", "misses"], rows) if rows else _NONE
    write("older_pytorch", "Earlier versions of PyTorch", machine, body, rows, results=options.results)
    return int(any(row[2] != "none" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
