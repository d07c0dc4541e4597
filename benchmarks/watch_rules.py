"""Counts how often each rule of ``skyline watch`` finds its problem, and how often it is silent without it.

The cases are those of the tests: streams of records (``tests/core/watch/cases.py``) and real trainings
(``tests/core/watch/trainings.py``), each training with several seeds. A rule is applied to the streams that show its
problem, to streams that look similar but do not have it, and to every training. It must be silent for a training
without its problem, whichever other problem the training has.

The baseline is a fixed threshold on the loss alone: a loss that is not finite, or above the loss of a guess among
22,000 classes. It gets the same records.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.watch.actions import Actions
from skyline.watch.course import Course
from skyline.watch.diary import Diary, entries
from skyline.watch.registry import known_rules, made_rules
from skyline.watch.rule import Alert, WatchRule
from skyline.watch.run import WatchedProcess
from skyline.watch.run_load import RunLoadMeter, family_s
from skyline.watch.watcher import Watcher

CASES = Path(__file__).resolve().parent.parent / "tests" / "core" / "watch"
BASELINE = "loss threshold"
_EVERY_S = 0.05
"""Seconds between two records: a tenth of the usual value, because the trainings last only seconds."""
_BUSY = (
    "Other programs ran at the time: a rule over times (`throughput_falls`, `loader_stalls`, `straggler`, "
    "`checkpoint_stalls`) may have seen a slowdown that the training itself does not cause. It counts as wrong here."
)
_SHARE = 0.1
"""Share of the time for statistics. The usual share gives few samples in a short training."""


@dataclass(frozen=True, slots=True)
class LossThreshold:
    """The loss is not finite, or above ``highest``: ln 22,026 is 10, the cross entropy of a guess among as many."""

    highest: float = 10.0

    def check(self, course: Course) -> Alert | None:
        """Check the last window."""
        last = course.windows[-1] if course.windows else None
        seen = () if last is None else (last.loss, last.largest_loss)
        beyond = [one for one in seen if one is not None and not one <= self.highest]
        return Alert(f"the loss is {beyond[0]}") if beyond else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one rule on one case. ``kind`` is stream or training. ``by_loss``: the baseline gave an alarm."""

    rule: str
    kind: str
    case: str
    shows: bool
    found: bool
    by_loss: bool


def beside_the_tests(name: str) -> ModuleType:
    """A module that the tests of ``skyline watch`` share."""
    spec = importlib.util.spec_from_file_location(f"watch_{name}", CASES / f"{name}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"there is no {CASES / name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_streams(shows: dict[str, list[Any]], shows_not: dict[str, list[Any]]) -> list[Outcome]:
    """The outcomes of each rule on its streams, with and without its problem."""
    return [
        Outcome(
            rule,
            "stream",
            f"{rule} {number}",
            there,
            stream.first_alert(rule) is not None,
            stream.alert_of(LossThreshold()) is not None,
        )
        for there, streams in ((True, shows), (False, shows_not))
        for rule, own in streams.items()
        for number, stream in enumerate(own, 1)
    ]


def of_training(name: str, training: Any, alarms: Callable[[str], set[str]], seeds: int) -> list[Outcome]:
    """The outcomes of each rule on the runs of one training. ``alarms`` runs a script and returns the fired rules."""
    found: list[Outcome] = []
    for seed in range(seeds):
        alarmed = alarms(training.seeded(seed))
        print(f"{name}, seed {seed}: {', '.join(sorted(alarmed)) or 'silent'}", file=sys.stderr)
        found += [
            Outcome(
                rule,
                "training",
                f"{name}, seed {seed}",
                rule in training.shows,
                rule in alarmed,
                BASELINE in alarmed,
            )
            for rule in known_rules().classes
            if rule not in training.follows
        ]
    return found


def watched(text: str, arguments: Iterable[str], exit_code: int) -> set[str]:
    """Run a training under ``skyline watch`` in its own folder. Returns the names of the rules that fired."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("train.py").write_text(text, encoding="utf-8")
            command = [sys.executable, "train.py", *arguments]
            history = Path(folder) / "history.jsonl"
            process = WatchedProcess(command, share=_SHARE, every_s=_EVERY_S)
            rules: dict[str, WatchRule] = {**made_rules({}, ""), BASELINE: LossThreshold()}
            meter = RunLoadMeter(lambda: family_s(process.root()))
            watcher = Watcher(
                rules,
                Diary(history, command),
                Actions(),
                lambda _: None,
                process.command,
                process.pause,
                meter.read,
            )
            try:
                code = process.listen(watcher.hear, watcher.read_host)
            finally:
                process.close()
            watcher.end(code)
            kept = list(entries(history))
        finally:
            os.chdir(before)
    if code != exit_code:
        raise SystemExit(f"a training ended with status {code}, not {exit_code}:\n{text}")
    problems = [one["message"] for one in kept if one.get("kind") == "report"]
    if problems or not any(one.get("kind") == "course" for one in kept):
        raise SystemExit(f"a training was not watched: {problems}\n{text}")
    for note in (one for one in kept if one.get("kind") == "note"):
        print(f"    {note['title']}: {'; '.join(note['evidence'])}", file=sys.stderr)
    return {one["rule"] for one in kept if one.get("kind") == "alert"}


def wrong(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes in which a rule missed its problem, or gave an alarm without it."""
    return [one for one in outcomes if one.found != one.shows]


def _count(outcomes: Iterable[Outcome], right: Callable[[Outcome], bool]) -> str:
    known = list(outcomes)
    return f"{sum(map(right, known))} of {len(known)}" if known else "-"


def page(outcomes: list[Outcome], *, busy: bool) -> str:
    """The table by rule, its totals, and every case in which a rule was wrong. ``busy``: the machine was busy."""
    head = [
        "rule",
        "streams with it: found",
        "without: silent",
        "trainings with it: found",
        "without: silent",
    ]
    head += ["loss alone: found", "silent"]

    def row(name: str, own: list[Outcome]) -> list[str]:
        cells: list[str] = []
        for kind in ("stream", "training"):
            of_kind = [one for one in own if one.kind == kind]
            cells.append(_count([one for one in of_kind if one.shows], lambda one: one.found))
            cells.append(_count([one for one in of_kind if not one.shows], lambda one: not one.found))
        by_loss = [
            _count([one for one in own if one.shows], lambda one: one.by_loss),
            _count([one for one in own if not one.shows], lambda one: not one.by_loss),
        ]
        return [name, *cells, *by_loss]

    rules = sorted({one.rule for one in outcomes})
    rows = [row(f"`{rule}`", [one for one in outcomes if one.rule == rule]) for rule in rules]
    rows.append(row("all", outcomes))
    mistakes = [
        f"- `{one.rule}` {'missed' if one.shows else 'gave a false alarm in'} {one.kind} *{one.case}*"
        for one in wrong(outcomes)
    ]
    real = {one.rule for one in outcomes if one.kind == "training" and one.shows}
    without = [f"`{rule}`" for rule in rules if rule not in real]
    parts = [
        table(head, rows),
        (
            "A stream is made by hand. A training is a real run with hooks and the usual thresholds. Records "
            f"come every {_EVERY_S:g} s, and statistics may take {_SHARE * 100:g} % of the time, because the "
            "trainings last seconds. All other trainings count as trainings without the rule's problem, also "
            "those with other problems. *Loss alone* is the baseline on the same cases: an alarm if the loss "
            f"is not finite or above {LossThreshold().highest:g}. Its alarm counts as found for every "
            "problem, although it does not name the problem. Without any rule, no problem is found and there "
            "is no alarm."
        ),
        f"No training shows the problem of: {', '.join(without)}." if without else "",
        "Wrong:\n\n" + "\n".join(mistakes) if mistakes else "No rule was wrong.",
        _BUSY if busy else "",
    ]
    return "\n\n".join(filter(None, parts))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of each training")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    machine = Machine.here()
    warn_when_busy(machine)
    cases, trainings = beside_the_tests("cases"), beside_the_tests("trainings").TRAININGS
    outcomes = of_streams(cases.SHOWS, cases.SHOWS_NOT)
    for name, training in trainings.items():
        outcomes += of_training(
            name,
            training,
            lambda text, one=training: watched(text, one.arguments, one.exit_code),
            options.seeds,
        )
    figures = [asdict(one) for one in outcomes]
    print(
        write(
            "watch_rules",
            "Rules of the watch",
            machine,
            page(outcomes, busy=not machine.is_quiet),
            figures,
            results=options.results,
        )
    )
    return 1 if wrong(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
