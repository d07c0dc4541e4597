"""Large output layers with adaptive softmax: predicted first, then measured in turns with the unchanged script.

    python benchmarks/adaptive_softmax.py [--rounds 8] [--only words.py "5000 --labels even"]

The prediction assumes labels by Zipf's law; evenly spread labels are the upper end of its range. Rows stay in the
result file, and ``--only`` measures some of them again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

NAME = "adaptive_softmax"
SCRIPTS = Path(__file__).parent / "softmax_scripts"
SoftmaxRow = tuple[str, str, tuple[str, ...]]
"""Script, size of the head, and arguments."""
ROWS: tuple[SoftmaxRow, ...] = (
    ("classes.py", "2000", ()),
    ("classes.py", "5000", ()),
    ("classes.py", "5000", ("--labels", "even")),
    ("classes.py", "5000", ("--optimizer", "Adam")),
    ("words.py", "1600", ()),
)


def verified(script: str, head: str, arguments: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """The report of ``skyline verify``. Its prediction is made and stored before anything is measured."""
    command = [
        sys.executable,
        "-m",
        "skyline",
        "verify",
        "--no-ledger",
        "--json",
        "-",
        "--rounds",
        str(rounds),
    ]
    command += [str(SCRIPTS / script), f"adaptive_softmax={head}", "--", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ran.stdout.strip():
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout)


def cells(script: str, head: str, arguments: tuple[str, ...], report: dict[str, Any]) -> list[str]:
    """One row of the table: times and peaks relative to the unchanged script."""
    before, said, found = report["baseline"], report["predicted"], report["measured"]
    base_ms = before["iteration_ms"]["value"]
    low, value, high = (said["iteration_ms"][end] / base_ms for end in ("low", "value", "high"))
    peaks = said["peak_bytes"]["value"], found["peak_bytes"]
    gigabytes = " / ".join("?" if peak is None else f"{peak / 1e9:.2f}" for peak in peaks)
    return [
        " ".join((script, *arguments)),
        head,
        f"{base_ms:.0f}",
        f"{value:.2f} [{low:.2f}, {high:.2f}]",
        f"{found['ratio']['value']:.2f}",
        f"{report['error']:+.1%}",
        f"{report['null_ratio']:.3f}",
        gigabytes,
    ]


def kept(results: Path) -> dict[SoftmaxRow, dict[str, Any]]:
    """The reports of the result file, by row."""
    path = results / f"{NAME}.json"
    if not path.is_file():
        return {}
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    by_row = {(one["script"], _head(one), tuple(one["arguments"])): one for one in figures}
    return {row: by_row[row] for row in ROWS if row in by_row}


def _head(report: dict[str, Any]) -> str:
    return str(report["whatifs"][0].partition("=")[2])


def name_of(row: SoftmaxRow) -> str:
    """The name of a row for ``--only``: ``classes.py 5000 --labels even``."""
    script, head, arguments = row
    return " ".join((script, head, *arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="TEXT", help="only rows with one of these in it"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    wanted = [row for row in ROWS if not asked.only or any(text in name_of(row) for text in asked.only)]
    reports = kept(asked.results) | {row: verified(*row, asked.rounds) for row in wanted}
    found = [(row, reports[row]) for row in ROWS if row in reports]
    head = [
        "script",
        "head",
        "now, ms",
        "predicted / now",
        "measured / now",
        "error",
        "null",
        "peak, GB: predicted / measured",
    ]
    body = table(head, [cells(*row, report) for row, report in found])
    print(
        write(
            NAME,
            "Adaptive softmax",
            machine,
            f"{asked.rounds} rounds in turns with the unchanged script.\n\n{body}",
            [report | {"script": script, "arguments": arguments} for (script, _, arguments), report in found],
            results=asked.results,
        )
    )


if __name__ == "__main__":
    main()
