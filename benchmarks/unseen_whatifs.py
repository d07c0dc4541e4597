"""What-ifs on ten public scripts that set no constant, measured once and listed by the basis of each answer.

The scripts are those in ``unseen_scripts.toml`` that no run has used yet. For each script, some changes are selected by
a hash of their words, predicted, written by Skyline's own rewrites, and measured in turns with the unchanged script,
which runs twice (the null). Only the first run counts: if its result file exists, this program refuses to run again.
Nothing is measured a second time. Rows whose null was off are discarded and counted.

``--keep FOLDER`` leaves the profile and the rows of each script there, for ``rescored.py``. ``--list FILE`` uses
another list, and ``--name`` another result file, to test this program itself.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from corpus_script import read_corpus
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY, Row, page, public

LIST = Path(__file__).with_name("unseen_scripts.toml")
TRIED = ("measured", "interpolated", "tried")
"""Answers from iterations that ran with the change, or with parts of it. Other answers come only from a model."""
_GROUPS = (("single, tried", True, False), ("single, modelled", False, False), ("three together", None, True))


def claims(rows: Sequence[Row]) -> str:
    """One line for each kind of claim. Rows whose null was off are counted and left out."""
    lines: list[list[str]] = []
    for title, tried, together in _GROUPS:
        own = [
            row
            for row in rows
            if (len(row.said.names) > 1) is together
            and (tried is None or (row.said.provenance in TRIED) is tried)
        ]
        valid = [row for row in own if row.valid]
        if not valid:
            lines.append([title, "0", str(len(own)), *[""] * 8])
            continue
        errors = sorted(abs(row.error) for row in valid)
        matters = [row for row in valid if row.sign_matters]
        lines.append(
            [
                title,
                str(len(valid)),
                str(len(own) - len(valid)),
                f"{statistics.median(errors):.1%}",
                f"{errors[math.ceil(0.9 * len(errors)) - 1]:.1%}",
                f"{sum(error <= 0.1 for error in errors)} of {len(errors)}",
                f"{sum(row.sign_right for row in matters)} of {len(matters)}",
                f"{sum(row.said.low <= row.measured.value <= row.said.high for row in valid)} of {len(valid)}",
                f"±{statistics.fmean((row.said.high - row.said.low) / 2 / row.said.ratio for row in valid):.1%}",
                f"{statistics.median(abs(1 / row.measured.value - 1) for row in valid):.1%}",
                f"{max(abs(row.null.value - 1) for row in valid):.1%}",
            ]
        )
    head = ["claim", "changes", "discarded", "median error", "90th percentile", "within 10 %", "right sign"]
    return table([*head, "range contains", "mean half width", "no change (median)", "largest null"], lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--sample", type=int, default=6, metavar="N", help="changes of each script")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--interpreter", help="Python that runs the scripts (default: this one)")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave profiles and rows there")
    parser.add_argument("--name", default="unseen_whatifs_19", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.only, options.together, options.alone = [], False, False
    options.at_once, options.within = 0, math.inf
    if (options.results / f"{options.name}.json").exists():
        print(f"{options.name} was measured: the first run counts. Freeze another list.", file=sys.stderr)
        return 2
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    scripts = [script for script in read_corpus(options.list) if not script.spent]
    rows: list[Row] = []
    without: list[str] = []
    for number, script in enumerate(scripts, start=1):
        found = public(script.name, options, corpus=options.list)
        rows += found
        without += [] if found else [script.title]
        # Write after each script, so that a stopped run keeps its rows.
        text = (
            f"{number} of {len(scripts)} scripts, of which {number - len(without)} gave rows; at most {options.sample} "
            f"changes of each. Each was measured once, in {options.rounds} rounds; none was repeated.\n\n{claims(rows)}"
            f"\n\n{page(rows)}"
        )
        text += "".join(f"\n\nNo rows: {title}." for title in without)
        figures = [asdict(row) | {"valid": row.valid, "error": row.error} for row in rows]
        title = "What-ifs on scripts that set nothing"
        written = write(options.name, title, machine, text, figures, results=options.results)
        print(written if number == len(scripts) else f"{script.name}: {len(found)} rows", flush=True)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
