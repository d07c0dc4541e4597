"""Lookups of embeddings counted in a profile, compared with known distributions, and the cost of counting them.

Scripts whose distribution of lookups is known are profiled unchanged. The share that the profile gives for the hottest
hundredth and tenth of the rows is compared with the true share. The pass is timed and compared with an equal number of
the profile's own iterations. A script without large embeddings shows the cost of counting zeros.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from corpus_checkout import checkout
from corpus_environment import make_data
from corpus_script import read_corpus
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.capture import session
from skyline.capture.request import CaptureRequest
from skyline.trace.tensor_values import hot_at
from skyline.units import format_share

HERE = Path(__file__).parent
ZIPF = HERE / "lookup_scripts" / "zipf_recommender.py"
EXAMPLES = HERE.parent / "examples"
SHARES = (0.01, 0.1)


@dataclass(frozen=True, slots=True)
class Case:
    """A script, the end of the path of one of its tables, and the true share of the hottest part of that table."""

    name: str
    script: Path
    arguments: tuple[str, ...]
    table: str
    true: Callable[[float, int], float] | None


@dataclass(frozen=True, slots=True)
class Row:
    """One profile of a case. The shares are in the order of ``SHARES``; times are in ms."""

    case: str
    iterations: int
    lookups: float
    seen: tuple[float, ...]
    true: tuple[float, ...]
    pass_ms: float
    iteration_ms: float
    profile_s: float


def zipf(exponent: float) -> Callable[[float, int], float]:
    """Rows whose chance is their rank to the minus ``exponent``."""

    def share(part: float, rows: int) -> float:
        weights = [rank**-exponent for rank in range(1, rows + 1)]
        return sum(weights[: int(part * rows)]) / sum(weights)

    return share


def cubed(part: float, _: int) -> float:
    """The share if a row is drawn as the cube of a uniform random number, as in the example."""
    return part ** (1 / 3)


def even(part: float, _: int) -> float:
    """The share if every row has the same probability."""
    return part


def cases(mirror: Path | None, checkouts: Path) -> list[Case]:
    found = [
        Case(f"zipf {exponent}", ZIPF, ("--exponent", str(exponent)), "tables.0", zipf(exponent))
        for exponent in (0.8, 1.05, 1.3)
    ]
    found.append(Case("examples/recommender.py", EXAMPLES / "recommender.py", (), "history", cubed))
    if mirror is not None:
        script = next(one for one in read_corpus() if one.name == "trans_e")
        folder = checkout(script.repository, script.commit, checkouts, mirror)
        make_data(script, folder, sys.executable, os.environ)
        found.append(Case(script.title, folder / script.path, script.arguments, "entities_emb", even))
    found.append(Case("examples/image_classifier.py", EXAMPLES / "image_classifier.py", (), "", None))
    return found


def profiled(case: Case) -> Row:
    """One profile, with the pass timed from outside."""
    took: list[float] = []
    measure = session.tensor_values

    def timed(*given: object, **named: object) -> object:
        begin = time.perf_counter()
        try:
            return measure(*given, **named)  # type: ignore[arg-type]
        finally:
            took.append(1e3 * (time.perf_counter() - begin))

    session.tensor_values = timed  # type: ignore[assignment]
    begin = time.perf_counter()
    try:
        request = CaptureRequest(
            case.script,
            case.arguments,
            interpreter=sys.executable,
            working_directory=case.script.parent,
            batch_points=0,
            trials=False,
        )
        profile = session.capture(request, progress=lambda _: None)
    finally:
        session.tensor_values = measure
    profile_s = time.perf_counter() - begin
    step_ms = median(profile.times.steps_ms)
    values = profile.values
    own = [one for one in values.tables if one.path.endswith(case.table)] if values else []
    if values is None or not own or case.true is None:
        iterations = values.iterations if values else 0
        return Row(case.name, iterations, 0.0, (), (), sum(took), step_ms, profile_s)
    [found] = own
    return Row(
        case.name,
        values.iterations,
        found.lookups,
        tuple(hot_at(found.hot, part * found.size_bytes).hit_share for part in SHARES),
        tuple(case.true(part, found.rows) for part in SHARES),
        sum(took),
        step_ms,
        profile_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones of the corpus")
    parser.add_argument("--checkouts", type=Path, default=Path("build/corpus"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    found = [
        profiled(case)
        for case in cases(asked.mirror, asked.checkouts.absolute())
        for _ in range(asked.rounds)
    ]
    head = ["script", "iterations", "lookups each", "hottest 1 %, seen", "true", "hottest 10 %, seen", "true",
            "pass, ms", "its iterations, ms", "profile, s"]  # fmt: skip
    rows = [
        [
            one.case,
            str(one.iterations),
            f"{one.lookups:,.0f}",
            *(
                text
                for seen, true in zip(one.seen or (None, None), one.true or (None, None), strict=True)
                for text in (
                    "" if seen is None else format_share(seen),
                    "" if true is None else format_share(true),
                )
            ),
            f"{one.pass_ms:,.0f}",
            f"{one.iterations * one.iteration_ms:,.0f}",
            f"{one.profile_s:.1f}",
        ]
        for one in found
    ]
    errors = [seen - true for one in found for seen, true in zip(one.seen, one.true, strict=True)]
    cost = [one.pass_ms / 1e3 / one.profile_s for one in found]
    beyond = [one.pass_ms - one.iterations * one.iteration_ms for one in found]
    body = (
        f"{asked.rounds} profiles of each script. The share in a profile differs from the true share by "
        f"{100 * median(map(abs, errors)):.1f} points (median), from {100 * min(errors):+.1f} to "
        f"{100 * max(errors):+.1f}. The pass takes {format_share(median(cost))} (median) of a profile "
        f"without curve and trials, and at most {format_share(max(cost))}. It takes {median(beyond):,.0f} ms "
        "(median) longer than its iterations, which are neither timed nor recorded. Without large "
        "embeddings, the pass is one iteration that counts zeros.\n\n"
        f"{table(head, rows)}"
    )
    print(write("profiled_lookups", "Lookups of embeddings in profiles", machine, body, [asdict(one) for one in found],
                results=asked.results))  # fmt: skip


if __name__ == "__main__":
    main()
