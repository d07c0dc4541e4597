"""Waits for a profile: for the first figures, for a ranking that stays, and for the end.

Three examples and seven public scripts are profiled as by ``skyline profile``, each in its own process, on an idle
machine and together with ``--jobs`` programs that each keep a core busy. Three moments are measured from the start:

- first: the headline, phases, lines and findings are there;
- ranking: from here on, the order of the what-ifs agrees with the final order in nine of ten pairs. Pairs whose
  speedups differ by less than a hundredth agree in any order;
- end: the profile is complete.

*Own* is the time of the script alone, from its start to the end of its sixth optimizer step (five iterations after the
first; without an optimizer, to its seventh backward pass), with the same other programs running. No first figure can be
earlier, unless Skyline shortens an evaluation before it.

The machine should be quiet. Publish figures of a quiet machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from compileall import compile_dir
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, make_data, write_repair
from corpus_script import read_corpus
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

import skyline
from skyline.interval import median

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OURS = ("image_classifier", "recommender", "small_gpt")
PUBLIC = ("gat", "word_lstm", "time_sequence", "nanogpt", "mingpt_adder", "bigram", "lecture_gpt")
"""Scripts of the corpus that need only PyTorch, NumPy and matplotlib."""
_AGREEING, _SAME = 0.9, 0.01
_MOMENTS = ("own", "first", "ranking", "end")
_SPIN = "while True: pass"
_OWN_STEPS = 6
_ALONE = f"""\
import os, runpy, sys
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
begun, steps, passes = [], [], []
def ended(*_):
    steps.append(0)
    if len(steps) == {_OWN_STEPS}:
        os._exit(0)
backward = torch.Tensor.backward
def counted(*arguments, **options):
    # A script may update its parameters by hand; in a step of L-BFGS there are many passes.
    passes.append(0)
    if not begun and len(passes) > {_OWN_STEPS}:
        os._exit(0)
    return backward(*arguments, **options)
torch.Tensor.backward = counted
register_optimizer_step_pre_hook(lambda *_: begun.append(0))
register_optimizer_step_post_hook(ended)
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """A script with everything needed to start it: its place, arguments, folder and variables."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    interpreter: str = sys.executable


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds from the start to each moment. ``failed`` is the reason if there is no profile.

    ``own_s`` is the script's own time to its first iterations, without Skyline.
    """

    name: str
    jobs: int
    own_s: float = 0.0
    first_s: float = 0.0
    ranking_s: float = 0.0
    end_s: float = 0.0
    failed: str = ""


def agreement(before: dict[str, float], after: dict[str, float]) -> float:
    """The share of pairs of what-ifs, by name with their speedups, that are in the same order before and after."""
    pairs = list(combinations(sorted(after), 2))
    if not pairs:
        return 1.0
    return sum(_agree(before, after, *pair) for pair in pairs) / len(pairs)


def _agree(before: dict[str, float], after: dict[str, float], one: str, other: str) -> bool:
    if one not in before or other not in before:
        return False
    was, now = before[one] - before[other], after[one] - after[other]
    return abs(now) < _SAME or was * now > 0


def profiled(subject: Subject) -> dict[str, Any]:
    """Seconds to the first figures and to the end, and both rankings. Runs in its own process."""
    from skyline.analysis.analyse import analyse
    from skyline.analysis.estimate import rank
    from skyline.capture.request import CaptureRequest
    from skyline.capture.session import capture
    from skyline.capture.warm_pool import WarmPool
    from skyline.report.build import profile_report
    from skyline.trace.profile import Profile

    began = time.monotonic()
    moments: list[tuple[float, Profile]] = []

    def arrived(profile: Profile) -> None:
        profile_report(analyse(profile))
        moments.append((time.monotonic() - began, profile))

    request = CaptureRequest(
        script=Path(subject.script), arguments=subject.arguments, working_directory=Path(subject.folder),
        variables=subject.variables, interpreter=subject.interpreter,
    )  # fmt: skip
    pool = WarmPool()
    try:
        arrived(capture(request, progress=lambda _: None, on_partial=arrived, starter=pool.start))
    finally:
        pool.close()
    rankings = [
        {one.name: one.sure_speedup for one in rank(analyse(profile)) if one.applicable}
        for _, profile in moments
    ]
    return {"seconds": [seconds for seconds, _ in moments], "rankings": rankings}


def waited(subject: Subject, jobs: int, limit_s: float) -> Wait:
    """One profile of a script while ``jobs`` other programs run."""
    command = [sys.executable, __file__, "--measure", json.dumps(asdict(subject))]
    with _beside(jobs):
        try:
            own_s = alone_s(subject, limit_s)
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=True
            )
        except subprocess.TimeoutExpired:
            return Wait(subject.name, jobs, failed=f"not done after {limit_s:.0f} s")
        except subprocess.CalledProcessError as error:
            return Wait(subject.name, jobs, failed=error.stderr.strip().splitlines()[-1][:200])
    told = json.loads(done.stdout.splitlines()[-1])
    seconds, rankings = told["seconds"], told["rankings"]
    settled = next(
        index
        for index in range(len(rankings))
        if all(agreement(one, rankings[-1]) >= _AGREEING for one in rankings[index:])
    )
    return Wait(subject.name, jobs, own_s, seconds[0], seconds[settled], seconds[-1])


def alone_s(subject: Subject, limit_s: float) -> float:
    """Seconds from the start of the script alone to the end of its first iterations, at most the limit."""
    began = time.monotonic()
    # A script may evaluate for many minutes first. Skyline shortens evaluations, so its profile comes much earlier.
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [subject.interpreter, "-c", _ALONE, subject.script, *subject.arguments],
            cwd=subject.folder,
            env=os.environ | dict(subject.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=True,
        )
    return time.monotonic() - began


@contextmanager
def _beside(jobs: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(jobs)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def subjects(scratch: Path, mirror: Path | None, names: Sequence[str], interpreter: str) -> Iterator[Subject]:
    """The scripts with these names, prepared to run. Unavailable ones are named on stderr and left out."""
    for name in OURS:
        if name in names:
            yield Subject(name, str(EXAMPLES / f"{name}.py"), folder=str(EXAMPLES))
    yield from of_corpus(scratch, mirror, [name for name in PUBLIC if name in names], interpreter)


def of_corpus(
    scratch: Path, mirror: Path | None, names: Sequence[str], interpreter: str
) -> Iterator[Subject]:
    """The scripts of the corpus with these names, prepared to run. Unavailable ones are named on stderr."""
    repair = scratch / "environment"
    scratch.mkdir(parents=True, exist_ok=True)
    write_repair(repair, interpreter)
    for script in read_corpus():
        if script.name not in names:
            continue
        try:
            folder = checkout(script.repository, script.commit, scratch / "checkouts", mirror)
            variables = environment(script, folder, repair, 1)
            make_data(script, folder, interpreter, variables)
        except (NotFetched, NoData) as reason:
            print(f"{script.name}: {reason}", file=sys.stderr)
            continue
        yield Subject(
            script.name,
            str(folder / script.path),
            script.arguments,
            str(script.working_directory(folder)),
            tuple(variables.items()),
            interpreter,
        )


def page(waits: Sequence[Wait]) -> str:
    """A row for each script and number of other programs: the median and the largest of each moment."""
    rows: list[list[str]] = []
    for name, jobs in dict.fromkeys((one.name, one.jobs) for one in waits):
        own = [one for one in waits if (one.name, one.jobs) == (name, jobs)]
        good = [one for one in own if not one.failed]
        times = [[getattr(one, f"{moment}_s") for one in good] for moment in _MOMENTS]
        cells = [f"{median(found):.1f} ({max(found):.1f})" if found else "" for found in times]
        failed = next((one.failed for one in own if one.failed), "")
        rows.append([name, str(jobs), *cells, str(len(good)), failed])
    head = ["script", "other programs", "own, s", "first, s", "ranking, s", "end, s", "profiles", "failed"]
    return f"Medians, with the largest.\n\n{table(head, rows)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument(
        "--interpreter",
        default=sys.executable,
        help="Python that runs the public scripts (default: this one)",
    )
    parser.add_argument("--only", nargs="+", choices=(*OURS, *PUBLIC), default=(*OURS, *PUBLIC))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--jobs", type=int, nargs="+", default=[0, 2], help="other programs (default: 0 and 2)"
    )
    parser.add_argument("--limit", type=float, default=420.0, help="seconds for one profile")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.measure is not None:
        given = json.loads(options.measure)
        given["arguments"] = tuple(given["arguments"])
        given["variables"] = tuple(map(tuple, given["variables"]))
        print(json.dumps(profiled(Subject(**given))))
        return 0
    machine = Machine.here()
    warn_when_busy(machine)
    # The first profile after an installation also compiles Skyline, which must not count as a wait.
    compile_dir(Path(skyline.__file__).parent, quiet=2)
    found = list(subjects(options.scratch.resolve(), options.mirror, options.only, options.interpreter))
    waits: list[Wait] = []
    for number in range(options.rounds):
        for subject in found if number % 2 == 0 else found[::-1]:
            for jobs in options.jobs:
                waits.append(waited(subject, jobs, options.limit))
                print(f"{number} {waits[-1]}", file=sys.stderr, flush=True)
    figures = [asdict(one) for one in waits]
    print(write("waiting", "Waits for a profile", machine, page(waits), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
