"""Compare predictions of ``fuse_jobs`` with fused runs.

    python benchmarks/fused_jobs.py [--jobs 2 8] [--rounds 8] [--only perceptron] [--public FOLDER]

Each script is profiled, and every prediction is made before anything else runs. Then the fused script and the script
itself are timed in turns, the script twice (the null). One process per run is also timed, all at once, each on its
share of the cores. The rewrite of ``skyline apply`` fuses the script. A script that it refuses is fused by hand
(``fused_cases.py``), as is every script with ``--by-hand``. Before that, a check trains the runs separately and fused
on the same batches: the losses of each run must be the same up to rounding. Rows stay in the result file, and
``--only`` measures some scripts again.

Close all other programs first: they interrupt the long iterations of fused runs, but few of the short ones.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fused_cases import CASES, FusedCase, losses, public
from interleaved import HandTimed, TimedScript
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.errors import RewriteRefused
from skyline.trace.trial import Choices
from skyline.verification.change import change
from skyline.whatif.catalogue.models.fuse_jobs import processes_at_once
from skyline.whatif.question import Choice, Question

NAME = "fused_jobs"
_AT_ONCE_S = 4.0
_SAME = 1e-6
"""Largest relative difference between the losses of a run alone and fused, in double precision."""
_LONGER = (
    ('"--epochs", type=int, default=2', '"--epochs", type=int, default=200'),
    ("max_iters = 500\n", "max_iters = 500_000\n"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One script with a number of runs. Ratios are relative to an iteration of one run of the script."""

    script: str
    jobs: int
    iteration_ms: float
    predicted: float
    low: float
    high: float
    predicted_at_once: float
    measured: float
    null: float
    measured_at_once: float
    loss_difference: float
    peak_factor: float
    rewritten: bool = False
    """True if `skyline apply` fused the script, false if it was fused by hand."""

    @property
    def error(self) -> float:
        """The error of the predicted fused iteration time."""
        return self.predicted / self.measured - 1

    @property
    def holds(self) -> bool:
        """True if the measurement is inside the range."""
        return self.low <= self.measured <= self.high

    @property
    def gain(self) -> float:
        """Work per second of the fused runs, relative to one process after another."""
        return self.jobs / self.measured

    @property
    def gain_at_once(self) -> float:
        """Work per second of the fused runs, relative to as many processes at once."""
        return self.measured_at_once / self.measured


def analysed(case: FusedCase) -> Analysis:
    with tempfile.TemporaryDirectory() as folder:
        # A script that reads neighbouring files runs in its own folder. Others run in the temporary folder.
        working = case.script.parent if case.neighbours else Path(folder)
        request = CaptureRequest(case.script, case.arguments, working_directory=working)
        return analyse(capture(request, progress=lambda _: None))


def difference(case: FusedCase, jobs: int) -> float:
    """The largest difference between losses of a run alone and fused, as a share of the loss."""
    apart, fused = losses(case, jobs)
    pairs = [pair for one, other in zip(apart, fused, strict=True) for pair in zip(one, other, strict=True)]
    worst = max(abs(one - other) / abs(one) for one, other in pairs)
    if worst > _SAME:
        raise SystemExit(f"{case.name}: losses differ by {worst:.2g} when {jobs} runs are fused")
    return worst


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context in which started processes compute on ``count`` threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before


def at_once_ms(script: TimedScript, jobs: int) -> float:
    """The iteration time of each of ``jobs`` processes that run at once, in ms."""
    with ExitStack() as stack:
        stack.enter_context(threads(max(1, (os.cpu_count() or 1) // jobs)))
        runs = [stack.enter_context(HandTimed(script)) for _ in range(jobs)]
        for run in runs:
            os.killpg(run.pid, signal.SIGCONT)
        time.sleep(_AT_ONCE_S / 4)
        before, began = [run.steps for run in runs], time.monotonic()
        time.sleep(_AT_ONCE_S)
        steps = [run.steps - done for run, done in zip(runs, before, strict=True)]
        return 1e3 * (time.monotonic() - began) / max(1e-9, statistics.fmean(steps))


def fused_text(case: FusedCase, analysis: Analysis, jobs: int) -> str | None:
    """The script as fused by the rewrite. None if the rewrite refuses it."""
    question = Question(choices=(Choice("fuse_jobs", str(jobs)),))
    try:
        made = change(analysis, question, analysis.profile.arguments)
    except RewriteRefused as refused:
        print(f"{case.name}: {refused.message}", file=sys.stderr)
        return None
    ((path, text),) = made.texts
    assert Path(path).samefile(case.script), path
    return text


def measured(case: FusedCase, many: list[int], rounds: int, *, by_hand: bool = False) -> list[Row]:
    analysis = analysed(case)
    base = analysis.baseline
    answers = {jobs: estimate(analysis, Question(choices=(Choice("fuse_jobs", str(jobs)),))) for jobs in many}
    told_at_once = {jobs: processes_at_once(base, jobs)[0] for jobs in many}
    differences = {jobs: difference(case, jobs) for jobs in many}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def written(name: str, text: str) -> TimedScript:
            for short, long in _LONGER:
                text = text.replace(short, long)
            path = folder / name / case.script.name
            path.parent.mkdir()
            path.write_text(text, encoding="utf-8")
            for neighbour in case.neighbours:
                (path.parent / neighbour).symlink_to(case.script.parent / neighbour)
            return TimedScript(path, case.arguments)

        plain = written("plain", case.text)
        texts = [None if by_hand else fused_text(case, analysis, jobs) for jobs in many]
        fused = [
            written(str(jobs), case.fused(jobs) if text is None else text)
            for jobs, text in zip(many, texts, strict=True)
        ]
        at_once = {jobs: at_once_ms(plain, jobs) for jobs in many}
        one, again, *others = (stack.enter_context(HandTimed(timed)) for timed in (plain, plain, *fused))
        done = in_turns(one, others, again, rounds=rounds)
        found: list[Row] = []
        for place, jobs in enumerate(many):
            answer, trials = answers[jobs], trial(Choices(), done, place)
            assert answer.applicable, answer.reason
            assert answer.peak_bytes is not None
            assert base.peak_bytes is not None
            alone_ms = statistics.median(turn.base_ms for turn in done)
            now = base.iteration_ms.value
            found.append(
                Row(
                    case.name, jobs, alone_ms,
                    answer.iteration_ms.value / now, answer.iteration_ms.low / now, answer.iteration_ms.high / now,
                    told_at_once[jobs] / now,
                    statistics.median(trials.ratios), statistics.median(trials.null), at_once[jobs] / alone_ms,
                    differences[jobs], answer.peak_bytes.value / base.peak_bytes.value, texts[place] is not None,
                )
            )  # fmt: skip
        return found


def page(rows: list[Row], failed: list[str]) -> str:
    head = [
        "script", "runs", "fused by", "one run", "fused: predicted", "range", "measured", "error", "null",
        "gain over one after another", "gain over processes at once", "the same, predicted", "losses differ by",
    ]  # fmt: skip
    body = [
        [
            row.script,
            str(row.jobs),
            "the rewrite" if row.rewritten else "hand",
            f"{row.iteration_ms:.2f} ms",
            f"{row.predicted:.2f}",
            f"{row.low:.2f} to {row.high:.2f}",
            f"{row.measured:.2f}",
            f"{row.error:+.0%}",
            f"{row.null:.2f}",
            f"{row.gain:.2f}",
            f"{row.gain_at_once:.2f}",
            f"{row.predicted_at_once / row.predicted:.2f}",
            f"{row.loss_difference:.1g}",
        ]
        for row in rows
    ]
    errors = sorted(abs(row.error) for row in rows)
    unchanged = sorted(abs(row.jobs / row.measured - 1) for row in rows)
    left_out = "".join(f"\n\n{one}." for one in failed)
    return (
        f"{table(head, body)}\n\nThe unit of the fused iteration is an iteration of one run. Median error "
        f"{statistics.median(errors):.0%}, worst {errors[-1]:.0%}. The baseline that fusing gains nothing: "
        f"{statistics.median(unchanged):.0%} and {unchanged[-1]:.0%}. {sum(row.holds for row in rows)} of "
        f"{len(rows)} measured times are in the range. Losses are compared over eight steps, without "
        f"dropout.{left_out}"
    )


def kept(results: Path) -> list[Row]:
    """The rows of the result file."""
    path = results / f"{NAME}.json"
    if not path.is_file():
        return []
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    names = [one.name for one in fields(Row)]
    return [Row(**{name: row[name] for name in names if name in row}) for row in figures]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", help="these scripts alone")
    parser.add_argument("--by-hand", action="store_true", help="measure the hand-fused form of every script")
    parser.add_argument(
        "--public", type=Path, metavar="FOLDER", help="checkouts of two public scripts, see fused_cases.py"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    rows = kept(options.results)
    failed: list[str] = []
    cases = (*CASES, *(public(options.public) if options.public else ()))
    for case in cases:
        if not options.only or case.name in options.only:
            try:
                found = measured(case, options.jobs, options.rounds, by_hand=options.by_hand)
                again = {(row.script, row.jobs) for row in found}
                rows = [row for row in rows if (row.script, row.jobs) not in again] + found
            except RuntimeError as error:
                failed.append(f"{case.name} is left out: {error}")
            print(page(rows, failed), file=sys.stderr)
    figures = [asdict(row) | {"error": row.error, "holds": row.holds} for row in rows]
    print(
        write(
            NAME,
            "Several runs fused into one",
            machine,
            page(rows, failed),
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
