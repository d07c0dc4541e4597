"""Quality and cost of ``skyline tune``, compared with an exhaustive run, random search and the best single change.

For each script, the four what-ifs with the largest simulated gain (one value each) form a space of 15 combinations
(``--parts`` sets another number). All of them are measured in turns with the unchanged script, as in the product. This
exhaustive run gives a table from which every strategy then draws its trials, with their outcomes and times. The choices
of the strategies are measured again in longer rounds. This second figure scores them, relative to the choice of the
exhaustive run. A choice that was measured only once (random search has many choices) is scored by the table, which is
in its favour.

``tune`` is the search of the product with a quarter of the time of the exhaustive run, including its verification.
``random`` has the same time without a verification. So has ``TPE`` (Optuna, if installed), which starts from the same
simulations. ``singles`` measures each change alone. ``simulation`` measures nothing.

Scripts are given as ``"PATH [ARGUMENTS]"``, by default the examples; ``--corpus`` names public scripts of
``corpus.toml``.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import msgspec
from long_examples import long_examples
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY, WhatIfScript, public

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.best import Climb, Constraints
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.errors import SkylineError
from skyline.interval import Interval
from skyline.tune.paired import PairedTrials
from skyline.tune.search import Budget, Outcome, tune
from skyline.tune.space import Candidate, Parts, Space
from skyline.verification.measure import Effort
from skyline.whatif.base import Semantics
from skyline.whatif.question import Choice

PARTS = 4
SHARE = 0.25
GOAL = 0.95
SEARCHED, JUDGED = Effort(6, turn_s=0.2), Effort(8, turn_s=0.35)
DRAWS, SEEDS = 500, 20
UNCHANGED: Parts = frozenset()


@dataclass(frozen=True, slots=True)
class Tried:
    """A combination: its simulated and measured figure (0: failed), and its time. ``judged`` is the second figure."""

    changes: tuple[str, ...]
    simulated: float
    measured: float
    null: float
    took_s: float
    judged: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Scored:
    """A strategy on a script: its cost and its result, both relative to the exhaustive run."""

    strategy: str
    cost: float
    quality: float
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    script: str
    exhaustive_s: float
    profile_s: float
    load_average: float
    best: float
    """The judged speed-up of the exhaustive run's choice."""
    tried: tuple[Tried, ...]
    scored: tuple[Scored, ...]


class Small:
    """The space of all combinations of some parts."""

    def __init__(self, analysis: Analysis, count: int) -> None:
        constraints = Constraints(None, Semantics.CONVERGENCE, rewritable=True)
        space, climb = Space(analysis, constraints), Climb(analysis, constraints)
        singles = {part: found for part, found in space.singles.items() if climb.keeps(frozenset({part}))}
        of_each: dict[str, Choice] = {}
        for part in sorted(singles, key=lambda one: -singles[one].value):
            of_each.setdefault(part.name, part)
        parts = sorted(of_each.values(), key=lambda one: -singles[one].value)[:count]
        self.singles = {part: singles[part] for part in parts}
        self.candidates: dict[Parts, Candidate] = {}
        for size in range(1, len(parts) + 1):
            for chosen in map(frozenset, combinations(parts, size)):
                if climb.keeps(chosen):
                    found = climb.ask(chosen)
                    once_s = found.one_off_s.value if found.one_off_s else 0.0
                    speedup = found.speedup_range or Interval.exact(found.speedup)
                    self.candidates[chosen] = Candidate(chosen, speedup, once_s)

    def around(self, chosen: Parts) -> tuple[Candidate, ...]:
        return tuple(self.candidates.values())


@dataclass(slots=True)
class TableTrials:
    """Trials whose outcomes were measured before, with a clock that advances by their times."""

    outcomes: Mapping[Parts, Outcome | SkylineError]
    took_s: Mapping[Parts, float]
    now_s: float = 0.0

    def __call__(self, candidate: Candidate, effort: Effort, progress: object) -> Outcome:
        # The verification has more and longer rounds than the trials of the table.
        longer = 1.0 if effort.rounds == SEARCHED.rounds else 2.0
        self.now_s += longer * self.took_s[candidate.parts]
        found = self.outcomes[candidate.parts]
        if isinstance(found, SkylineError):
            raise found
        return found


Choose = tuple[Parts, float]
"""The chosen parts, and the time of the trials in s."""


def best_of(parts: Iterable[Parts], speeds: Mapping[Parts, float]) -> Parts:
    """The fastest measured combination. The unchanged script if none is faster."""
    return max((UNCHANGED, *parts), key=lambda one: speeds.get(one, 1.0 if not one else 0.0))


def product(small: Small, trials: TableTrials, budget_s: float) -> Choose:
    first_s = statistics.median(trials.took_s.values())
    found = tune(
        small,  # type: ignore[arg-type]
        trials,
        Budget(budget_s, first_s),
        progress=lambda said: None,
        clock=lambda: trials.now_s,
    )
    return (found.best.parts if found.worth and found.best else UNCHANGED), trials.now_s


def at_random(took_s: Mapping[Parts, float], speeds: Mapping[Parts, float], budget_s: float) -> list[Choose]:
    chance = random.Random(0)
    return [
        in_order(chance.sample(list(took_s), len(took_s)), took_s, speeds, budget_s) for _ in range(DRAWS)
    ]


def in_order(
    order: Iterable[Parts], took_s: Mapping[Parts, float], speeds: Mapping[Parts, float], budget_s: float
) -> Choose:
    spent_s, done = 0.0, []
    for parts in order:
        if spent_s + took_s[parts] > budget_s:
            break
        spent_s += took_s[parts]
        done.append(parts)
    return best_of(done, speeds), spent_s


def by_tpe(
    small: Small, took_s: Mapping[Parts, float], speeds: Mapping[Parts, float], budget_s: float, seed: int
) -> Choose:
    """Optuna's sampler. It starts from the simulated figures, and the best simulated combination runs first."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {str(part): optuna.distributions.CategoricalDistribution([False, True]) for part in small.singles}
    by_text = {str(part): part for part in small.singles}

    def params(parts: Parts) -> dict[str, bool]:
        return {text: part in parts for text, part in by_text.items()}

    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for candidate in small.candidates.values():
        study.add_trial(
            optuna.create_trial(
                params=params(candidate.parts), distributions=space, value=math.log(candidate.speedup.value)
            )
        )
    study.enqueue_trial(params(max(small.candidates.values(), key=lambda one: one.speedup.value).parts))
    spent_s, done = 0.0, []
    for _ in range(100):
        asked = study.ask(space)
        parts = frozenset(by_text[text] for text, on in asked.params.items() if on)
        if parts in took_s and parts not in done:
            if spent_s + took_s[parts] > budget_s:
                break
            spent_s += took_s[parts]
            done.append(parts)
        study.tell(asked, math.log(speeds.get(parts) or 1e-3) if parts else 0.0)
    return best_of(done, speeds), spent_s


def measured_script(subject: WhatIfScript, folder: Path, count: int) -> ScriptResult | None:
    """The table of a script, and every strategy on it."""
    began_s = time.monotonic()
    load_average = os.getloadavg()[0]
    request = subject.request(folder)
    analysis = analyse(capture(request, progress=lambda said: None))
    profile_s = time.monotonic() - began_s
    small = Small(analysis, count)
    pool = WarmPool()
    paired = PairedTrials(analysis, request, keep=False, starter=pool.start)
    outcomes: dict[Parts, Outcome | SkylineError] = {}
    took_s: dict[Parts, float] = {}
    judged: dict[Parts, float] = {UNCHANGED: 1.0}

    def measure(parts: Parts, effort: Effort) -> Outcome | SkylineError:
        try:
            return paired(small.candidates[parts], effort, lambda said: None)
        except SkylineError as error:
            error.of_change = True
            return error

    try:
        for parts in small.candidates:
            began_s = time.monotonic()
            outcomes[parts] = measure(parts, SEARCHED)
            took_s[parts] = time.monotonic() - began_s
            print(f"  {small.candidates[parts].words}: {outcomes[parts]}", file=sys.stderr, flush=True)
        speeds = {one: found.speedup.value for one, found in outcomes.items() if isinstance(found, Outcome)}
        if not speeds:
            return None
        whole_s = sum(took_s.values())
        budget_s = SHARE * whole_s
        simulated = max(small.candidates.values(), key=lambda one: one.speedup.value).parts
        singles = [parts for parts in small.candidates if len(parts) == 1]
        chosen: dict[str, list[Choose]] = {
            "exhaustive": [(best_of(speeds, speeds), whole_s)],
            "tune": [product(small, TableTrials(outcomes, took_s), budget_s)],
            "tune, all the time": [product(small, TableTrials(outcomes, took_s), math.inf)],
            "singles": [(best_of(singles, speeds), sum(took_s[one] for one in singles))],
            "simulation": [(simulated, 0.0)],
        }
        for parts in {parts for choices in chosen.values() for parts, _ in choices} - {UNCHANGED}:
            again = measure(parts, JUDGED)
            judged[parts] = again.speedup.value if isinstance(again, Outcome) else 1.0
    finally:
        pool.close()
    chosen["random"] = at_random(took_s, speeds, budget_s)
    if importlib.util.find_spec("optuna"):
        chosen["TPE"] = [by_tpe(small, took_s, speeds, budget_s, seed) for seed in range(SEEDS)]
    best = judged[chosen["exhaustive"][0][0]]

    def quality(choices: list[Choose]) -> float:
        return statistics.fmean(judged.get(parts, speeds.get(parts, 1.0)) for parts, _ in choices) / best

    return ScriptResult(
        subject.name,
        whole_s,
        profile_s,
        load_average,
        best,
        tuple(
            Tried(
                tuple(sorted(map(str, parts))),
                small.candidates[parts].speedup.value,
                speeds.get(parts, 0.0),
                found.null if isinstance(found, Outcome) else 1.0,
                took_s[parts],
                judged.get(parts),
                found.reason if isinstance(found, Outcome) else found.message,
            )
            for parts, found in outcomes.items()
        ),
        tuple(
            Scored(
                strategy,
                statistics.fmean(spent_s for _, spent_s in choices) / whole_s,
                quality(choices),
                tuple(sorted(map(str, choices[0][0]))) if len(choices) == 1 else (),
            )
            for strategy, choices in chosen.items()
        ),
    )


def own(subject: WhatIfScript, folder: Path | None, count: int) -> list[ScriptResult]:
    print(subject.name, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = measured_script(subject, folder or Path(scratch), count)
        except SkylineError as failed:
            print(f"{subject.name}: {failed.message}", file=sys.stderr)
            return []
    return [] if found is None else [found]


def page(results: list[ScriptResult]) -> str:
    lines = [
        [
            one.script,
            scored.strategy,
            f"{scored.quality:.1%}",
            f"{scored.cost:.0%}",
            " ".join(scored.changes) or ("" if scored.strategy in {"random", "TPE"} else "none"),
        ]
        for one in results
        for scored in one.scored
    ]
    head = ["script", "strategy", "of the exhaustive run's choice", "of its seconds", "choice"]
    scripts = [
        [
            one.script,
            str(len(one.tried)),
            str(sum(not row.measured for row in one.tried)),
            str(sum(bool(row.reason) and bool(row.measured) for row in one.tried)),
            f"{one.best:.2f}x",
            f"{one.exhaustive_s:.0f}",
            f"{one.profile_s:.0f}",
            f"{one.load_average:.1f}",
        ]
        for one in results
    ]
    about = ["script", "combinations", "failed", "uncertain", "best", "exhaustive s", "profile s", "load"]
    reached = [
        scored
        for one in results
        for scored in one.scored
        if scored.strategy == "tune" and scored.quality >= GOAL and scored.cost <= SHARE + 0.005
    ]
    goal = (
        f"Goal: at least {GOAL:.0%} of the best result, in at most {SHARE:.0%} of the seconds. It is reached "
        f"on {len(reached)} of {len(results)} scripts."
    )
    return f"{goal}\n\n{table(head, lines)}\n\n{table(about, scripts)}\n\n{(__doc__ or '').strip()}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="*", metavar='"SCRIPT [ARGUMENTS]"')
    parser.add_argument("--interpreter", help="Python that runs the scripts (default: this one)")
    parser.add_argument("--corpus", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--folder", type=Path, help="where the scripts run (default: a new folder)")
    parser.add_argument(
        "--parts", type=int, default=PARTS, help="what-ifs that make the space (public scripts: 4)"
    )
    parser.add_argument("--note", default="", help="a remark for the page, such as the load of the machine")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="tune_quality")
    parser.add_argument("--results", type=Path, default=RESULTS)
    # Passed on to the process of a public script.
    parser.set_defaults(only=[], together=False, alone=False, keep=None)
    parser.add_argument("--rounds", type=int, default=SEARCHED.rounds, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    results: list[ScriptResult] = []
    with ExitStack() as stack:
        copies = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        named = options.scripts or ([] if options.corpus else long_examples(copies))
        jobs: list[Callable[[], list[ScriptResult]]] = [
            partial(own, WhatIfScript.parse(one, options.interpreter), options.folder, options.parts)
            for one in named
        ]
        jobs += [
            partial(public, name, options, program=__file__, kind=ScriptResult) for name in options.corpus
        ]
        for job in jobs:
            results += job()
            if options.rows is not None:
                options.rows.write_bytes(msgspec.json.encode(results))
            elif results:
                text = "\n\n".join(filter(None, (options.note, page(results))))
                title = "Quality and cost of skyline tune"
                figures = [asdict(one) for one in results]
                write(options.name, title, machine, text, figures, results=options.results)
    if results and options.rows is None:
        print(page(results))
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
