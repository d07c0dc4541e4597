"""Peak memory that what-ifs predict, compared with the peak of the changed script.

Each script is profiled once, and each peak is predicted from that profile. The unchanged script runs twice and
each change, made by Skyline's own rewrite in memory, once: it warms up, and the live tensor memory of two iterations is
recorded. The load of the machine does not affect these figures, so there are no rounds. Changes are selected by a hash
of their words.

The scripts are public ones: those of ``--list`` that no run has used yet, or those that ``--corpus`` names.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
from change_sample import sampled
from corpus_script import read_corpus
from kept_rows import KeptRows
from machine import Machine
from result_file import RESULTS, table, write
from unseen_whatifs import LIST
from whatifs import KEEPS_MEMORY, WhatIfScript, public, questions

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.verification.change import change
from skyline.whatif.question import Question

_MATTERS = 0.02
"""A change of the peak by more than this counts as one that matters."""
_STEADY = 0.05
"""Rows count if the peaks of two runs of the unchanged script, and of the profile, differ by at most this."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One change of one script: predicted and measured peak of live tensor memory, in bytes.

    ``profiled`` is the peak of the profile; ``bases`` are the peaks of two other runs of the unchanged script.
    """

    script: str
    names: tuple[str, ...]
    provenance: str
    profiled: float
    bases: tuple[int, int]
    said: float
    low: float
    high: float
    measured: int

    @property
    def valid(self) -> bool:
        """True if the unchanged script has the same peak in every run."""
        peaks = (self.profiled, *self.bases)
        return max(peaks) <= min(peaks) * (1 + _STEADY)

    @property
    def matters(self) -> bool:
        """True if the change was predicted or measured to change the peak."""
        return any(abs(peak / self.profiled - 1) > _MATTERS for peak in (self.said, self.measured))

    @property
    def error(self) -> float:
        """The predicted peak over the measured one, minus one."""
        return self.said / self.measured - 1

    @property
    def without(self) -> float:
        """The error of the prediction that nothing changes."""
        return self.profiled / self.measured - 1

    @property
    def holds(self) -> bool:
        """True if the predicted range contains the measured peak, to a thousandth."""
        return self.low * 0.999 <= self.measured <= self.high * 1.001


def peak(request: CaptureRequest) -> int | None:
    """The peak of live tensor memory of two iterations after the warm-up, in bytes; None if the script ends before."""
    with HeldRun(ScriptLauncher(request)) as run:
        run.launch()
        run.warm_up()
        return run.peak_bytes


def _predicted(
    analysis: Analysis, name: str, question: Question, bases: tuple[int, int], measured: int
) -> MemoryRow:
    """The row of a change whose peak was measured."""
    answer = estimate(analysis, question)
    assert answer.peak_bytes is not None
    said, low, high = answer.peak_bytes.ends
    profiled = float(analysis.baseline.peak.total)
    names = tuple(map(str, question.all_choices))
    return MemoryRow(name, names, answer.provenance, profiled, bases, said, low, high, measured)


def _measured(analysis: Analysis, request: CaptureRequest, question: Question) -> int | None:
    """The peak of the changed script; None if it does not run, or ends too soon."""
    try:
        return peak(change(analysis, question, analysis.profile.arguments).over(request))
    except SkylineError as failed:
        words = " ".join(map(str, question.all_choices))
        print(f"  {words}: did not run: {failed.message}", file=sys.stderr)
        return None


def own(subject: WhatIfScript, options: argparse.Namespace) -> list[MemoryRow]:
    """The rows of a script that runs unchanged. Kept peaks are not measured again, but all are predicted again."""
    kept = KeptRows(options.keep, subject.name, MemoryRow)
    with tempfile.TemporaryDirectory() as folder:
        request = replace(subject.request(options.folder or Path(folder)), budget_s=options.budget)
        try:
            analysis = analyse(kept.profile(lambda: capture(request, progress=lambda _: None)))
            asked = {" ".join(map(str, choices)): choices for choices in questions(analysis)}
            if options.only:
                names = {*options.only}
                asked = {words: one for words, one in asked.items() if names & {each.name for each in one}}
            asked = sampled(subject.name, asked, options.sample)
            left = [words for words in asked if not kept.measured(words)]
            print(
                f"{subject.name}: {len(left)} of {len(asked)} changes to measure", file=sys.stderr, flush=True
            )
            bases = (peak(request) or 0, peak(request) or 0) if left else (0, 0)
        except SkylineError as failed:
            print(f"{subject.name}: {failed.message}", file=sys.stderr)
            return []
        for words in left if all(bases) else ():
            question = Question.of(asked[words])
            found = _measured(analysis, request, question)
            kept.put({words: _predicted(analysis, subject.name, question, bases, found) if found else None})
        rows = {words: row for words in asked for row in kept.among([words])}
        return [
            _predicted(analysis, subject.name, Question.of(asked[words]), row.bases, row.measured)
            for words, row in rows.items()
        ]


def _figures(title: str, rows: Sequence[MemoryRow]) -> list[str]:
    if not rows:
        return [title, "0", *[""] * 6]
    errors = sorted(abs(row.error) for row in rows)
    return [
        title,
        str(len(rows)),
        f"{statistics.median(errors):.1%}",
        f"{errors[math.ceil(0.9 * len(errors)) - 1]:.1%}",
        f"{errors[-1]:.0%}",
        f"{sum(error <= 0.05 for error in errors)} of {len(rows)}",
        f"{sum(row.holds for row in rows)} of {len(rows)}",
        f"{statistics.median(abs(row.without) for row in rows):.1%}",
    ]


def _legend(rows: Sequence[MemoryRow]) -> str:
    left_out = sum(not row.valid for row in rows)
    return (
        f"{left_out} of {len(rows)} rows are left out (`off`): the peaks of three runs of the unchanged script differ "
        f"by more than {_STEADY:.0%}, because their iterations differ. A change counts in its line if the peak was "
        f"predicted or measured to change by more than {_MATTERS:.0%}. `no change` is the median error of the "
        "unchanged script's peak as a prediction."
    )


def page(rows: Sequence[MemoryRow]) -> str:
    """The table of the kinds of claims, then all rows."""
    valid = [row for row in rows if row.valid]
    chosen = [row for row in valid if row.matters]
    groups = [
        ("single changes", [row for row in chosen if len(row.names) == 1]),
        ("three together", [row for row in chosen if len(row.names) > 1]),
        ("peak unchanged by prediction and measurement", [row for row in valid if not row.matters]),
    ]
    head = [
        "changes",
        "rows",
        "median error",
        "90th percentile",
        "worst",
        "within 5 %",
        "range contains",
        "no change",
    ]
    lines = [
        [
            row.script,
            " + ".join(row.names),
            row.provenance,
            f"{row.profiled / 1e6:.1f}",
            f"{row.said / 1e6:.1f} [{row.low / 1e6:.1f}, {row.high / 1e6:.1f}]",
            f"{row.measured / 1e6:.1f}",
            f"{row.error:+.1%}" + ("" if row.valid else " off"),
        ]
        for row in rows
    ]
    return "\n\n".join(
        [
            table(head, [_figures(*group) for group in groups]),
            _legend(rows),
            table(
                ["script", "change", "provenance", "now, MB", "predicted, MB", "measured, MB", "error"], lines
            ),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", metavar='"SCRIPT [ARGUMENTS]"')
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--corpus", nargs="*", default=[], metavar="NAME", help="scripts of the list")
    parser.add_argument("--only", nargs="*", default=[], metavar="WHATIF")
    parser.add_argument("--sample", type=int, default=12, metavar="N", help="changes of each script")
    parser.add_argument(
        "--budget", type=float, default=20.0, metavar="S", help="seconds for trials of a profile"
    )
    parser.add_argument("--interpreter", help="Python that runs the scripts (default: this one)")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--folder", type=Path, help="where the scripts run (default: a new folder)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave profiles and measured peaks there")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--at-once", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--within", type=float, default=math.inf, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="whatif_memory", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.update(KEEPS_MEMORY)
    if options.rows is not None:
        subject = WhatIfScript.parse(shlex.join(shlex.split(options.scripts[0])), options.interpreter)
        options.rows.write_bytes(msgspec.json.encode(own(subject, options)))
        return 0
    machine = Machine.here()
    names = options.corpus or [one.name for one in read_corpus(options.list) if not one.spent]
    options.together = options.alone = False
    rows: list[MemoryRow] = []
    text = ""
    for name in names:
        rows += public(name, options, program=__file__, kind=MemoryRow, corpus=options.list)
        if rows:
            figures = [asdict(row) | {"valid": row.valid, "error": row.error} for row in rows]
            title = "Peak memory of what-ifs"
            text = write(options.name, title, machine, page(rows), figures, results=options.results)
    if rows:
        print(text)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
