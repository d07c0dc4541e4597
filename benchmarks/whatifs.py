"""What-ifs compared with measurements: all changes that Skyline can write, alone and three at a time, on whole scripts.

Each script is profiled once and everything is predicted before anything runs. Then each change is made by Skyline's
own rewrite, in memory, and the changed scripts and the unchanged script are measured in turns, the latter twice (the
null). The prediction is compared with two simple ones: "no change", and Amdahl's law with one rule of thumb for each
what-if (the affected phases, and their stated speed-up).

All processes run with glibc set to keep its memory (``MALLOC_*``). Otherwise two processes of one script may
differ by a quarter for their whole life, as ``fresh_processes.py`` shows.

Scripts are given as ``"PATH [ARGUMENTS]"``, each in quotes; ``--corpus`` adds public scripts of ``corpus.toml`` by
name. Without any script, the examples are measured. With ``--keep FOLDER``, profiles and rows are stored there: a run
that was stopped, or ended by ``--within``, continues there, and rows whose null was off are measured again.
``--at-once`` limits how many changes take turns; each such batch has its own null.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import msgspec
from agreed_triples import agreed, key
from change_sample import sampled
from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, make_data, write_repair
from corpus_script import CORPUS, read_corpus
from kept_rows import Deadline, KeptRows, batches
from long_examples import long_examples
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatif_rules import rule_of_thumb

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.held_run import HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.errors import SkylineError
from skyline.interval import Interval, bootstrap
from skyline.trace.trial import Choices
from skyline.verification.change import Change, change
from skyline.whatif.composition import detected_in
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named, whatifs

KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
MOST_VALUES = 2
"""Values of one what-if that are measured on one script."""
MOST_TRIPLES = 4
NULL_TOLERANCE = 0.05
DEADLINE = Deadline()
_R = TypeVar("_R")
BARS = {"median error": 0.06, "90th percentile": 0.15, "interval holds": 0.80, "triples": 0.10}


@dataclass(frozen=True, slots=True)
class WhatIfScript:
    """A script with its arguments, and the interpreter that runs it."""

    script: Path
    arguments: tuple[str, ...]
    interpreter: str | None

    @classmethod
    def parse(cls, text: str, interpreter: str | None) -> WhatIfScript:
        """The script from ``PATH [ARGUMENTS]``."""
        path, *arguments = shlex.split(text)
        return cls(Path(path).resolve(), tuple(arguments), interpreter)

    @property
    def name(self) -> str:
        """Folder and file, which distinguish public scripts."""
        return f"{self.script.parent.name}/{self.script.name}"

    def request(self, folder: Path) -> CaptureRequest:
        """The request that runs the script."""
        return CaptureRequest(
            self.script,
            self.arguments,
            interpreter=self.interpreter,
            working_directory=folder,
            timeout_s=300.0,
        )


@dataclass(frozen=True, slots=True)
class Said:
    """The prediction for one change, made before it ran. Ratios are of iteration times to the unchanged script's."""

    names: tuple[str, ...]
    ratio: float
    low: float
    high: float
    rule: float
    peak_bytes: float
    provenance: str


@dataclass(slots=True)
class Row:
    """One change of one script: its prediction and its measurement."""

    script: str
    said: Said
    measured: Interval
    null: Interval
    peak_bytes: int | None

    @property
    def error(self) -> float:
        """The predicted ratio over the measured one, minus one."""
        return self.said.ratio / self.measured.value - 1

    @property
    def valid(self) -> bool:
        """True if the ratio of the script to itself is one within the tolerance."""
        return (
            self.null.low <= 1 + NULL_TOLERANCE
            and self.null.high >= 1 - NULL_TOLERANCE
            and (abs(self.null.value - 1) <= NULL_TOLERANCE)
        )

    @property
    def noise(self) -> float:
        """Half the width of the null's interval, or its distance from one if that is larger."""
        return max(self.null.half_width, abs(self.null.value - 1), 0.01)

    @property
    def sign_matters(self) -> bool:
        """True if the change had an effect beyond the noise."""
        return abs(self.measured.value - 1) > self.noise and not self.measured.low <= 1 <= self.measured.high

    @property
    def sign_right(self) -> bool:
        """True if the prediction has the right sign: faster or slower."""
        return (self.said.ratio - 1) * (self.measured.value - 1) > 0

    @property
    def holds(self) -> bool:
        """True if the predicted and the measured interval overlap."""
        return self.said.low <= self.measured.high and self.measured.low <= self.said.high


def questions(analysis: Analysis) -> list[tuple[Choice, ...]]:
    """Every applicable change that can be written, at its default and one other value, then some triples of changes."""
    singles: list[Choice] = []
    for name in whatifs():
        found = detected_in(analysis.baseline, whatif_named(name))
        if not found.applicable:
            continue
        values = list(dict.fromkeys((found.default, *found.values)))[:MOST_VALUES]
        singles += [Choice(name, value) for value in values if writable(analysis, (Choice(name, value),))]
    return [*((choice,) for choice in singles), *triples(analysis, singles)]


def triples(analysis: Analysis, singles: Sequence[Choice]) -> list[tuple[Choice, ...]]:
    """Some triples. Each is chosen to have as many new what-ifs as possible, then for the largest effects."""
    effects = {choice: abs(math.log(speed(analysis, (choice,)))) for choice in singles}
    strongest: dict[str, Choice] = {}
    for choice in sorted(singles, key=lambda one: -effects[one]):
        strongest.setdefault(choice.name, choice)
    left = list(combinations(strongest.values(), 3))
    chosen: list[tuple[Choice, ...]] = []
    while left and len(chosen) < MOST_TRIPLES:
        had = {part for three in chosen for part in three}
        left.sort(key=lambda three: (len(had & {*three}), -sum(effects[part] for part in three)))
        three = left.pop(0)
        if writable(analysis, three):
            chosen.append(three)
    return chosen


def speed(analysis: Analysis, choices: Sequence[Choice]) -> float:
    start = analysis.baseline.iteration_ms.value
    return max(1e-3, estimate(analysis, Question.of(choices)).iteration_ms.value / start)


def writable(analysis: Analysis, choices: tuple[Choice, ...]) -> bool:
    try:
        if not estimate(analysis, Question.of(choices)).applicable:
            return False
        change(analysis, Question.of(choices), analysis.profile.arguments)
    except SkylineError as refused:
        print(f"  {' '.join(map(str, choices))}: not written: {refused.message}", file=sys.stderr)
        return False
    return True


def said(analysis: Analysis, choices: tuple[Choice, ...]) -> Said:
    answer = estimate(analysis, Question.of(choices))
    now = analysis.baseline.iteration_ms.value
    # The measurement is a median iteration, which has no share of the cost of rare iterations.
    change_ms = answer.typical_change_ms
    return Said(
        tuple(map(str, choices)),
        *(1 + end / now for end in change_ms.ends),
        math.prod(rule_of_thumb(analysis, choice) for choice in choices),
        answer.peak_bytes.value,
        answer.provenance,
    )


def measured(
    subject: WhatIfScript, folder: Path, changes: Sequence[tuple[Said, Change]], rounds: int
) -> list[Row]:
    """Measure all changes in turns with the script, which runs twice."""
    with ExitStack() as stack:
        plain = subject.request(folder)
        base, again = (stack.enter_context(HeldRun(ScriptLauncher(plain))) for _ in range(2))
        base.launch()
        again.launch()
        base.warm_up()
        again.warm_up()
        runs: list[tuple[Said, HeldRun]] = []
        for words, one in changes:
            run = stack.enter_context(HeldRun(ScriptLauncher(one.over(plain))))
            try:
                run.launch()
                run.warm_up()
            except SkylineError as failed:
                print(f"  {' '.join(words.names)}: did not run: {failed.message}", file=sys.stderr)
                run.close()
                continue
            runs.append((words, run))
        every = [base, again, *(run for _, run in runs)]
        if base.room is not None:
            peaks = [run.peak_bytes or 0 for run in every[1:]]
            sharing = base.room.sharing_of_held(peaks)
            for run in every:
                run.share(sharing)
        cycle = max(run.cycle for run in every)
        for run in every:
            run.cycle = cycle
        found = in_turns(base, [run for _, run in runs], again, rounds=rounds)
        null = bootstrap([one.null for one in found if one.null is not None])
        return [
            Row(subject.name, words, bootstrap(trial(Choices(), found, number).ratios), null, run.peak_bytes)
            for number, (words, run) in enumerate(runs)
        ]


def validate(subject: WhatIfScript, options: argparse.Namespace, working: Path | None) -> list[Row]:
    """The rows of one script, run in a folder, by default a new one."""
    kept = KeptRows(options.keep, subject.name, Row)
    wanted = set[str](options.only)
    with tempfile.TemporaryDirectory() as folder:
        working = working or Path(folder)
        profile = kept.profile(lambda: capture(subject.request(working), progress=lambda _: None))
        analysis = analyse(profile)
        fixed = [choices for choices in agreed(subject.name) if writable(analysis, choices)]
        asked = {
            key(choices): choices
            for choices in (*fixed, *questions(analysis))
            if (not wanted or wanted & {one.name for one in choices})
            and (len(choices) > 1 or not options.together)
            and (len(choices) == 1 or not options.alone)
        }
        asked = sampled(subject.name, asked, options.sample)
        left = [words for words in asked if not kept.measured(words)]
        print(f"{subject.name}: {len(left)} of {len(asked)} changes to measure", file=sys.stderr)
        for batch in batches(left, options.at_once):
            if DEADLINE.passed:
                print(f"{subject.name}: no time for the rest", file=sys.stderr)
                break
            began = time.monotonic()
            changes = [
                (
                    said(analysis, asked[words]),
                    change(analysis, Question.of(asked[words]), profile.arguments),
                )
                for words in batch
            ]
            rows = measured(subject, working, changes, options.rounds)
            found = {" ".join(sorted(row.said.names)): row for row in rows}
            kept.put({words: found.get(words) for words in batch})
            DEADLINE.took(time.monotonic() - began)
        return kept.among(list(asked))


def page(rows: Sequence[Row]) -> str:
    """The table and its summary."""
    head = [
        "script",
        "change",
        "measured",
        "predicted",
        "error",
        "no change",
        "rule of thumb",
        "holds",
        "peak",
        "null",
    ]
    body = [
        [
            row.script,
            " + ".join(row.said.names),
            f"{row.measured.value:.3f} [{row.measured.low:.3f}, {row.measured.high:.3f}]",
            f"{row.said.ratio:.3f} [{row.said.low:.3f}, {row.said.high:.3f}]",
            f"{row.error:+.1%}",
            f"{1 / row.measured.value - 1:+.1%}",
            f"{row.said.rule / row.measured.value - 1:+.1%}",
            "yes" if row.holds else "no",
            f"{row.said.peak_bytes / row.peak_bytes - 1:+.1%}" if row.peak_bytes else "",
            f"{row.null.value:.3f}" + ("" if row.valid else " off"),
        ]
        for row in rows
    ]
    parts = [table(head, body)]
    valid = [row for row in rows if row.valid]
    for title, chosen in (
        ("Single changes", [row for row in valid if len(row.said.names) == 1]),
        ("Three changes together", [row for row in valid if len(row.said.names) > 1]),
    ):
        if chosen:
            parts.append(f"## {title}\n\n{summary(chosen)}")
    dropped = len(rows) - len(valid)
    parts.append(
        f"{dropped} of {len(rows)} rows have a null off by more than {NULL_TOLERANCE:.0%} and are left out of the "
        "sums. "
        "Each ratio is an iteration time divided by that of the unchanged script. Measured intervals are 95 % "
        "bootstrap intervals of the median over rounds; `holds` says whether the predicted and the measured "
        "range have a value in common; `peak` is the predicted peak memory against that of the changed script."
    )
    return "\n\n".join(parts)


def summary(rows: Sequence[Row]) -> str:
    ours = sorted(abs(row.error) for row in rows)
    plain = [abs(1 / row.measured.value - 1) for row in rows]
    rule = [abs(row.said.rule / row.measured.value - 1) for row in rows]
    matters = [row for row in rows if row.sign_matters]
    right = [row for row in matters if row.sign_right]
    lines = [
        ["Skyline", *_figures(ours)],
        ["no change", *_figures(plain)],
        ["Amdahl, rules of thumb", *_figures(rule)],
    ]
    wrong = ", ".join(f"{row.script} {'+'.join(row.said.names)}" for row in matters if row not in right)
    names = {name.partition("=")[0] for row in rows for name in row.said.names}
    peaks = [abs(row.said.peak_bytes / row.peak_bytes - 1) for row in rows if row.peak_bytes]
    return "\n".join(
        [
            table(
                ["absolute error of the iteration time", "median", "mean", "90th percentile", "worst"], lines
            ),
            "",
            f"{len(rows)} changes by {len(names)} what-ifs on {len({row.script for row in rows})} scripts. "
            f"Sign right in {len(right)} of {len(matters)} whose effect is beyond the noise"
            f"{': wrong for ' + wrong if wrong else ''}. "
            f"The stated range holds the measurement in {sum(row.holds for row in rows)} of {len(rows)}. "
            + (
                f"Peak memory: median error {statistics.median(peaks):.1%}, worst {max(peaks):.1%}."
                if peaks
                else ""
            ),
        ]
    )


def _figures(errors: Sequence[float]) -> list[str]:
    ordered = sorted(errors)
    ninety = ordered[min(len(ordered) - 1, math.ceil(0.9 * len(ordered)) - 1)]
    return [
        f"{figure:.1%}"
        for figure in (statistics.median(ordered), statistics.fmean(ordered), ninety, ordered[-1])
    ]


def own(subject: WhatIfScript, options: argparse.Namespace) -> list[Row]:
    """The rows of a script that runs unchanged."""
    try:
        rows = validate(subject, options, options.folder)
    except SkylineError as failed:
        print(f"{subject.name}: {failed.message}", file=sys.stderr)
        return []
    for row in rows:
        told = [
            *row.said.names,
            round(row.said.ratio, 3),
            round(row.measured.value, 3),
            round(row.null.value, 3),
        ]
        print(f"  {told}", file=sys.stderr, flush=True)
    return rows


def public(
    name: str,
    options: argparse.Namespace,
    *,
    program: str = __file__,
    kind: type[_R] = Row,
    corpus: Path = CORPUS,
) -> list[_R]:
    """The rows of a script of the corpus, as written by ``program`` in a process with the script's environment."""
    script = next(one for one in read_corpus(corpus) if one.name == name)
    scratch = options.scratch.resolve()
    interpreter = options.interpreter or sys.executable
    write_repair(scratch / "environment", interpreter)
    try:
        folder = checkout(script.repository, script.commit, scratch / "checkouts", options.mirror)
        variables = environment(script, folder, scratch / "environment", os.cpu_count() or 1)
        make_data(script, folder, interpreter, variables)
    except (NotFetched, NoData) as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as parent:
        rows = Path(parent, "rows.json")
        command = [sys.executable, program, shlex.join([str(folder / script.path), *script.arguments])]
        command += ["--interpreter", interpreter, "--folder", str(script.working_directory(folder))]
        command += ["--rounds", str(options.rounds), "--rows", str(rows)]
        command += ["--only", *options.only] if options.only else []
        command += ["--together"] * options.together + ["--alone"] * options.alone
        command += ["--sample", str(options.sample)] if getattr(options, "sample", 0) else []
        command += ["--budget", str(options.budget)] if getattr(options, "budget", 0) else []
        if getattr(options, "keep", None):
            command += ["--keep", str(options.keep.resolve()), "--at-once", str(options.at_once)]
            command += ["--within", str(options.within)]
        subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, check=False)
        return msgspec.json.decode(rows.read_bytes(), type=list[kind]) if rows.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", metavar='"SCRIPT [ARGUMENTS]"')
    parser.add_argument("--interpreter", help="Python that runs the scripts (default: this one)")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WHATIF", help="only changes that contain one of these"
    )
    parser.add_argument("--together", action="store_true", help="only changes of three together")
    parser.add_argument("--alone", action="store_true", help="only single changes")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many changes of each script")
    parser.add_argument("--corpus", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--list", type=Path, default=CORPUS, help="the list of the scripts of --corpus")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--folder", type=Path, help="where the scripts run (default: a new folder)")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep what is done there, and go on from it"
    )
    parser.add_argument("--at-once", type=int, default=0, metavar="N", help="changes that take turns (all)")
    parser.add_argument(
        "--within", type=float, default=math.inf, metavar="S", help="begin nothing after that"
    )
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="whatifs", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    DEADLINE.within_s = options.within
    stack = ExitStack()  # Profiles that stay name the files they are of: those stay too.
    copies = Path(options.keep or stack.enter_context(tempfile.TemporaryDirectory()), "examples").resolve()
    named = options.scripts if options.scripts or options.corpus else long_examples(copies)
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Row] = []
    text = ""
    jobs = [partial(own, WhatIfScript.parse(one, options.interpreter), options) for one in named]
    jobs += [partial(public, name, options, corpus=options.list) for name in options.corpus]
    for job in jobs:
        rows += job()
        if options.rows is not None:
            options.rows.write_bytes(msgspec.json.encode(rows))
        elif rows:
            figures = [
                asdict(row) | {"valid": row.valid, "error": row.error, "holds": row.holds} for row in rows
            ]
            title = "What-ifs against the changed scripts"
            text = write(options.name, title, machine, page(rows), figures, results=options.results)
    stack.close()
    if rows:
        print(text)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
