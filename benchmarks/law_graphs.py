"""Checks the laws of what-ifs on generated graphs: five hundred for each law, from a seed stated on the page.

The laws are in ``tests/core/whatif/test_laws.py``, in their long form. Examples that failed earlier are not replayed:
the graphs come only from the seed.
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

REPOSITORY = Path(__file__).resolve().parent.parent
LAWS = "tests/core/whatif/test_laws.py"
_LONG = "[many]"
GRAPHS = 500


def run_laws(seed: int) -> list[tuple[str, str, float]]:
    """Each law in words with its outcome, ``holds`` or ``broken``, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "laws.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "long",
            "-p",
            "no:xdist",
            "-p",
            "no:rerunfailures",
        ]
        command += ["-p", "no:cacheprovider", f"--hypothesis-seed={seed}", f"--junitxml={report}", LAWS]
        environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=sys.stderr, check=False)
        found: list[tuple[str, str, float]] = []
        for case in ElementTree.parse(report).iter("testcase"):
            name = (case.get("name") or "").removesuffix(_LONG).removeprefix("test_").replace("_", " ")
            broken = any(child.tag in ("failure", "error") for child in case)
            found.append((name, "broken" if broken else "holds", float(case.get("time") or 0)))
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    figures = [
        {"seed": seed, "law": law, "outcome": outcome, "seconds": seconds}
        for seed in options.seeds
        for law, outcome, seconds in run_laws(seed)
    ]
    held = sum(row["outcome"] == "holds" for row in figures)
    rows = [
        [str(row["seed"]), str(row["law"]), str(row["outcome"]), f"{row['seconds']:.0f} s"] for row in figures
    ]
    text = (
        f"{held} of {len(figures)} laws hold, each on {GRAPHS} generated graphs: scripts on an A100 with 3 "
        "to 12 pieces of work, whose kernels take one to three times the limit of memory and arithmetic "
        "units.\n\n"
        f"{table(['seed', 'law', 'outcome', 'time'], rows)}"
    )
    title = "Laws of what-ifs on generated graphs"
    write("law_graphs", title, machine, text, figures, results=options.results)
    return int(held < len(figures) or not figures)


if __name__ == "__main__":
    sys.exit(main())
