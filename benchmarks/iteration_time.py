"""Compares the iteration time that Skyline measures with the iteration time of the script without Skyline.

For each script, three runs take short turns: timed by hand, by Skyline (its own child process, held and released as in
every profile), and by hand again. The figure is Skyline's median step over the mean of the two hand timings around it,
round by round. The null is the second hand timing over the first. Two processes of one script may differ by some per
cent for their whole life, so everything is repeated with fresh processes. A script whose null is off by more than 3 %
does not count as measured.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from interleaved import TURN_S, HandTimed, TimedScript
from machine import Machine, warn_when_busy
from ratio import NULL_TOLERANCE, Ratio, is_steady
from result_file import RESULTS, table, write

from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.turns import Round, Turn, in_turns, trial
from skyline.source.text import SourceText
from skyline.trace.trial import Choices

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_TURN_MS = TURN_S * 1e3
_WARMUP = 3


class SkylineTimed:
    """A script in Skyline's child process, timed as a profile times it."""

    def __init__(self, subject: TimedScript, stack: ExitStack) -> None:
        folder = (subject.folder or subject.script.parent).resolve()
        self._child = stack.enter_context(ChildProcess(subject.interpreter, folder, timeout_s=240.0))
        text = SourceText.read(subject.script)
        self._child.send(
            "start",
            script=str(subject.script),
            arguments=list(subject.arguments),
            sources={str(subject.script.resolve()): text.text},
            warmup=_WARMUP,
            scratch=str(self._child.scratch),
        )
        self._child.receive("ready")
        self._typical_ms = _TURN_MS
        self.steps = 0

    @property
    def pid(self) -> int:
        """The id of the script's process."""
        return self._child.pid

    def turn(self) -> Turn | None:
        """A turn as long as a turn by hand. The first iteration fills the caches and is dropped."""
        iterations = max(4, min(5000, round(_TURN_MS / self._typical_ms)))
        try:
            rows = run_bare(self._child, iterations + 1)[1:]
            self.steps += iterations + 1
        except ScriptEnded:
            return None
        self._typical_ms = statistics.median(row.step_ms for row in rows)
        return Turn(self._typical_ms, rows)


def measure(subject: TimedScript, repeats: int, rounds: int) -> list[Round]:
    """All rounds of all repeats, each repeat with its own processes."""
    done: list[Round] = []
    for _ in range(repeats):
        with ExitStack() as stack:
            base, again = stack.enter_context(HandTimed(subject)), stack.enter_context(HandTimed(subject))
            done += in_turns(base, [SkylineTimed(subject, stack)], again, rounds=rounds)
    return [one for one in done if one.variants[0] is not None]


def row(subject: TimedScript, rounds: list[Round]) -> tuple[list[str], dict[str, object]]:
    """One line of the table and its figures."""
    timed = trial(Choices(), rounds)
    figures: dict[str, object] = {"script": subject.name, "ratios": timed.ratios, "nulls": timed.null}
    if not rounds:
        return [subject.name, "", "", "ended too soon", "", "", ""], figures
    by_hand = statistics.median([one.base_ms for one in rounds])
    shown = timed.step_ms
    ratio = Ratio.of(timed.ratios)
    null = Ratio.of(timed.null)
    steady = is_steady(null.value)
    figures |= {"ratio": asdict(ratio), "null": asdict(null), "steady": steady}
    verdict = ("within 3 %" if abs(ratio.value - 1) <= 0.03 else "off") if steady else "discarded: null"
    print(f"{subject.name}: ratio {ratio}, null {null}: {verdict}", file=sys.stderr)
    cells = [subject.name, f"{by_hand:.2f}", f"{shown:.2f}", str(ratio), str(null), str(len(rounds)), verdict]
    return cells, figures


def subjects(scripts: list[str], interpreter: str) -> list[TimedScript]:
    """The scripts from command lines. By default the examples, each in its own folder."""
    if not scripts:
        return [TimedScript(path) for path in sorted(EXAMPLES.glob("*.py"))]
    parsed = (shlex.split(script) for script in scripts)
    return [TimedScript(Path(script).resolve(), tuple(rest), interpreter) for script, *rest in parsed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "scripts", nargs="*", help='command lines, as in "train.py --epochs 3" (default: the examples)'
    )
    parser.add_argument("--repeats", type=int, default=5, help="number of starts of all processes")
    parser.add_argument("--rounds", type=int, default=4, help="rounds per repeat")
    parser.add_argument(
        "--interpreter", default=sys.executable, help="the Python that runs the given scripts"
    )
    parser.add_argument("--threads", type=int, help="threads of each run (default: as the script has it)")
    parser.add_argument("--name", default="iteration_time", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()

    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects(options.scripts, options.interpreter):
            place = subject if options.scripts else TimedScript(subject.script, folder=Path(folder))
            cells, numbers = row(place, measure(place, options.repeats, options.rounds))
            rows.append(cells)
            figures.append(numbers)
    head = [
        "script",
        "by hand, ms",
        "Skyline, ms",
        "Skyline / by hand",
        "hand again / hand (null)",
        "rounds",
        "",
    ]
    threads = (
        f"{options.threads} thread(s) per run" if options.threads else "threads as the scripts have them"
    )
    body = (
        f"{table(head, rows)}\n\nMedians over rounds, {threads}; brackets are 95 % bootstrap intervals. "
        f"A script whose null is off by more than {NULL_TOLERANCE:.0%} does not count as measured."
    )
    title = "Iteration time: Skyline compared with a stopwatch"
    print(write(options.name, title, machine, body, figures, results=options.results))
    return 0 if all(numbers.get("steady") for numbers in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
