"""What-ifs without a rewrite, on real scripts with the change made by hand: predicted, then measured in turns.

    python benchmarks/leaner_rows.py --mirror FOLDER --interpreter PYTHON [--rounds 8] [--only better_graph]

Each script of ``leaner_cases.py`` is profiled, and the answer is stored before anything else runs. Then both forms, and
the script itself a second time (the null), take turns. An answer that nothing is gained is right if the form by hand
gains nothing either. For ``hot_embeddings`` and ``stale_embeddings``, shares are compared instead of times: the shares
in the profile with the shares in the iterations directly after the profiled ones, in a separate run
(``later_lookups.py``). For the findings on zeros and on bits of values, a profile's sample is compared with all values
of later iterations (``later_zeros.py``). For ``checkpoint_every``, Skyline writes the interval, and turns last whole
intervals (``leaner_saves.py``). Rows stay in the result file, and ``--only`` adds some to it. ``better_graph`` needs
the extra ``graph``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
from corpus_script import read_corpus
from leaner_cases import CASES, OF_SAVES, OF_TABLES, OF_VALUES, Case, Edit
from leaner_saves import saved_rows
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY, Row, Said, WhatIfScript, public
from whatifs import measured as measured_in_turns

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.interval import Interval
from skyline.trace.tensor_values import LayerWidths, LayerZeros, TableAccess, hot_at, steady_at
from skyline.verification.change import Change
from skyline.whatif.catalogue.memory.hot_embeddings import usual_mb
from skyline.whatif.question import Choice, Estimate, Question

ROOT = Path(__file__).resolve().parent.parent
NAME = "leaner_rows"
NO_GAIN = "no gain"
"""Provenance if the answer is that the change does not apply or gains nothing."""
LOOKUPS, ROWS = "share of lookups", "share of rows that change"
FACTORS, BITS = "share of multiplications without a zero", "share of 16 bits that values need"
"""Provenances if shares are compared instead of times."""
STALE = 0.001
_PARTS = 4
"""Sub-batches of the form by hand if the answer names none."""
_SUB_BATCH = re.compile(r"in sub-batches of (\d+)")
_COUNT = 100
"""Iterations of the run that counts lookups."""
_COUNT_TIMEOUT_S = 900.0
_VALUE_FIRST, _VALUE_COUNT = 50, 10
"""First iteration and number of iterations of the run that examines every value."""


@dataclass(frozen=True, slots=True)
class SizedScript(WhatIfScript):
    """A script with other texts in place of its files."""

    overrides: tuple[tuple[str, str], ...] = ()

    def request(self, folder: Path) -> CaptureRequest:
        """The run with those texts."""
        return replace(WhatIfScript.request(self, folder), source_overrides=self.overrides)


def edited(folder: Path, edits: Sequence[Edit], before: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Texts of the edited files by path. Raises ValueError if an old text does not occur exactly once."""
    texts = dict(before)
    for name, old, new in edits:
        path = str(folder / name)
        text = texts.get(path) or Path(path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{name}: {old!r} is there {text.count(old)} times")
        texts[path] = text.replace(old, new)
    return texts


def with_parts(edits: Sequence[Edit], answer: Estimate, batch_size: int | None) -> list[Edit]:
    """The edits with the number of sub-batches filled in, from the first group of the answer."""
    found = _SUB_BATCH.search(answer.assumptions[0]) if answer.applicable and answer.assumptions else None
    parts = -(-batch_size // int(found[1])) if found and batch_size else _PARTS
    return [(name, old, new.replace("{parts}", str(parts))) for name, old, new in edits]


def told(analysis: Analysis, whatif: str) -> tuple[Said, Estimate]:
    """The answer before anything is measured. Its ratio is 1 if nothing is gained."""
    answer = estimate(analysis, Question(choices=(Choice(whatif),)))
    now = analysis.baseline.iteration_ms.value
    value, low, high = (
        (answer.iteration_ms.value / now, answer.iteration_ms.low / now, answer.iteration_ms.high / now)
        if answer.applicable
        else (1.0, 1.0, 1.0)
    )
    peak = answer.peak_bytes.value if answer.peak_bytes is not None else 0.0
    reason = answer.provenance if answer.applicable else f"{NO_GAIN}: {answer.reason}"
    return Said((whatif,), value, low, high, 1.0, peak, reason), answer


def row_share(tables: Sequence[TableAccess]) -> float:
    """The share of looked-up rows that a step hardly changes."""
    known = [one for one in tables if one.steady]
    rows = sum(one.distinct_rows for one in known)
    return sum(one.distinct_rows * steady_at(one.steady, STALE).row_share for one in known) / max(1.0, rows)


def share_rows(cases: Sequence[Case], name: str, subject: WhatIfScript, working: Path) -> list[Row]:
    """Rows with the shares of a profile, and of the iterations directly after it in a separate run."""
    request = replace(subject.request(working), batch_points=0, trials=False)
    values = analyse(capture(request, progress=lambda _: None)).profile.values
    if values is None or not values.tables:
        reason = (
            values.problem if values else ""
        ) or "no large embedding was seen: a busy machine leaves no time for it"
        print(f"{name}: {reason}", file=sys.stderr)
        return []
    megabytes = usual_mb(values)
    first, steps = (values.after or 0) + values.iterations, min(_COUNT, values.iterations)
    hot, steady = hot_at(values.hot, 1e6 * megabytes), row_share(values.tables)
    ends = hot.hit_share, hot.least_share, hot.most_share
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "shares.json")
        counter = [str(ROOT / "benchmarks" / "later_lookups.py"), str(out), str(first), str(_COUNT)]
        counter += [str(steps), str(megabytes), str(STALE)]
        command = [subject.interpreter or sys.executable, *counter]
        command += [str(subject.script), *subject.arguments]
        subprocess.run(command, cwd=working, timeout=_COUNT_TIMEOUT_S, check=True, stdout=subprocess.DEVNULL)
        seen: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
    # The rule without any skew: lookups in proportion to bytes. All rows are still being trained at first.
    even = min(1.0, 1e6 * megabytes / seen["bytes"])
    said = {
        "hot_embeddings": (
            Said((f"hot_embeddings={megabytes}",), *ends, even, 0.0, LOOKUPS),
            seen["hot"],
        ),
        "stale_embeddings": (
            # The range is for the whole training, because it is not known which rows settle later.
            Said(
                (f"stale_embeddings={STALE:g}",),
                1 - steady,
                *(0.0, 1.0, 1.0, 0.0),
                f"{ROWS}: {values.iterations} iterations after {values.after or 0} others, then {steps} more; "
                f"{1 - seen['steady_later']:.3f} at iteration {first + _COUNT}",
            ),
            1 - seen["steady"],
        ),
    }
    halves = Interval.exact(seen["first"] / seen["second"])
    return [
        Row(name, said[case.whatif][0], Interval.exact(said[case.whatif][1]), halves, None) for case in cases
    ]


def factor_share(layers: Sequence[LayerZeros]) -> float:
    """The share of multiplications of the layers without a zero. Of two factors, the one with more zeros counts."""
    zero = total = 0.0
    for one in layers:
        gradients = one.gradients or 0.0
        pairs = (one.inputs, one.weights), (gradients, one.weights), (gradients, one.inputs)
        zero += one.multiplications * sum(map(max, pairs))
        total += 3 * one.multiplications
    return 1 - zero / total


def bit_share(layers: Sequence[LayerWidths]) -> float:
    """The share of 16 bits per value of the layers that the values need."""
    parts = [part for one in layers for part in (one.inputs, one.weights, one.gradients) if part is not None]
    return sum(one.numbers * one.mean_bits for one in parts) / (16 * sum(one.numbers for one in parts))


def value_rows(cases: Sequence[Case], name: str, subject: WhatIfScript, working: Path) -> list[Row]:
    """Rows with zeros and bits sampled by a profile, and of all values in later iterations of a separate run."""
    request = replace(subject.request(working), batch_points=0, trials=False)
    values = analyse(capture(request, progress=lambda _: None)).profile.values
    if values is None or not values.zeros:
        print(f"{name}: no zeros were counted", file=sys.stderr)
        return []
    said = {"zeros": (factor_share(values.zeros), FACTORS), "widths": (bit_share(values.widths), BITS)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "zeros.json")
        counter = [
            str(ROOT / "benchmarks" / "later_zeros.py"),
            str(out),
            str(_VALUE_FIRST),
            str(_VALUE_COUNT),
        ]
        command = [subject.interpreter or sys.executable, *counter, str(subject.script), *subject.arguments]
        subprocess.run(command, cwd=working, timeout=_COUNT_TIMEOUT_S, check=True, stdout=subprocess.DEVNULL)
        seen: dict[str, list[float]] = json.loads(out.read_text(encoding="utf-8"))
    rows: list[Row] = []
    for case in cases:
        share, basis = said[case.whatif]
        first, second = seen["factors" if case.whatif == "zeros" else "bits"]
        rows.append(
            Row(
                name,
                Said((case.whatif,), share, 0.0, 1.0, 1.0, 0.0, basis),
                Interval.exact((first + second) / 2),
                Interval.exact(first / second),
                None,
            )
        )
    return rows


def with_settings(case: Case, subject: WhatIfScript) -> SizedScript:
    """The script with the settings of the case, in memory."""
    texts = tuple(edited(subject.script.parent, case.settings).items())
    return SizedScript(subject.script, subject.arguments, subject.interpreter, texts)


def timed_rows(case: Case, subject: WhatIfScript, working: Path, rounds: int) -> list[Row]:
    """The row of one script with the change by hand."""
    folder = subject.script.parent
    plain = with_settings(case, subject)
    analysis = analyse(capture(plain.request(working), progress=lambda _: None))
    said, answer = told(analysis, case.whatif)
    print(f"{subject.name}: {said}", file=sys.stderr)
    edits = with_parts(case.edits, answer, analysis.baseline.batch_size)
    texts = tuple(edited(folder, edits, plain.overrides).items())
    return measured_in_turns(plain, working, [(said, Change(texts, subject.arguments, ""))], rounds)


def sized(case: Case, subject: WhatIfScript, folder: Path) -> WhatIfScript:
    """The script with the settings of the case, in a folder if it has any."""
    for path, text in edited(subject.script.parent, case.settings).items():
        folder.joinpath(Path(path).name).write_text(text, encoding="utf-8")
    return replace(subject, script=folder / subject.script.name) if case.settings else subject


def rows_of(cases: Sequence[Case], subject: WhatIfScript, working: Path | None, rounds: int) -> list[Row]:
    """The rows of one script."""
    with tempfile.TemporaryDirectory() as parent:
        run = working or Path(parent)
        found: list[Row] = []
        for kind, rows in ((OF_TABLES, share_rows), (OF_VALUES, value_rows)):
            shares = [case for case in cases if case.whatif in kind]
            if shares:
                found += rows(shares, subject.name, sized(shares[0], subject, Path(parent)), run)
        for case in cases:
            found += timed_rows(case, subject, run, rounds) if case.edits else []
            if case.whatif in OF_SAVES:
                found += saved_rows(with_settings(case, subject), case.values, run, rounds)
        return found


def error(row: Row) -> float:
    """The predicted over the measured ratio, minus one. For a share, which may be zero, the difference."""
    share = row.said.provenance.startswith("share")
    return row.said.ratio - row.measured.value if share else row.error


def page(rows: Sequence[Row]) -> str:
    """A line for each row."""
    head = ["script", "what-if", "measured", "predicted", "null", "basis"]
    body = [
        [
            row.script,
            row.said.names[0],
            f"{row.measured.value:.3f} [{row.measured.low:.3f}, {row.measured.high:.3f}]",
            f"{row.said.ratio:.3f} [{row.said.low:.3f}, {row.said.high:.3f}]",
            f"{row.null.value:.3f}",
            row.said.provenance,
        ]
        for row in rows
    ]
    return (
        f"{table(head, body)}\n\nFigures are ratios of iteration times, changed over unchanged, except for "
        "four kinds of rows, by their basis:\n\n"
        f"- *{LOOKUPS}*: the share of the lookups that the given MB of the hottest rows answer. A profile "
        f"predicts it, and the {_COUNT} iterations after the profile are counted.\n"
        f"- *{ROWS}*: the share of looked-up rows that a step changes by more than {STALE:g} of their norm, "
        "in the profiled iterations and in an equal number directly after them. The share at the end of the "
        "count shows the later course, which no answer states.\n"
        f"- *{FACTORS}* and *{BITS}*: the findings SKY306 and SKY308 sample them in one iteration. All "
        f"values of {_VALUE_COUNT} later iterations are counted. The null is one half of these iterations "
        "over the other. The load of the machine has no effect.\n\n"
        "*No gain* is an answer. It is right if the form by hand gains nothing.\n\n"
        "For `checkpoint_every=N`, with N written by Skyline, the mean iteration of whole intervals "
        "is compared. The save was timed while the training was observed. The range is that of the observed "
        " saves.\n\nNot included: `tick_tock`, which needs a GPU."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=[], metavar="WHATIF")
    parser.add_argument(
        "--scripts", nargs="*", default=[], metavar="NAME", help="only scripts with one of these in it"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--interpreter", help="Python that runs public scripts (default: this one)")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.together = options.alone = False
    os.environ.update(KEEPS_MEMORY)
    wanted = [case for case in CASES if not options.only or case.whatif in options.only]
    if options.script:
        subject = WhatIfScript.parse(options.script, options.interpreter)
        own = [case for case in wanted if case.public and subject.script.match(f"*/{_path(case.script)}")]
        options.rows.write_bytes(msgspec.json.encode(rows_of(own, subject, options.folder, options.rounds)))
        return 0
    machine = Machine.here()
    warn_when_busy(machine)
    rows = kept(options.results)
    failed: list[str] = []
    names = dict.fromkeys(case.script for case in wanted)
    for name in names:
        if options.scripts and not any(one in name for one in options.scripts):
            continue
        own = [case for case in wanted if case.script == name]
        options.only = [case.whatif for case in own]
        found = (
            public(name, options, program=__file__)
            if own[0].public
            else rows_of(own, WhatIfScript.parse(str(ROOT / name), None), None, options.rounds)
        )
        failed += [] if found else [name]
        again = {(row.script, row.said.names[0].partition("=")[0]) for row in found}
        rows = [row for row in rows if (row.script, row.said.names[0].partition("=")[0]) not in again] + found
        # Write after each script, so that a stopped run keeps its rows.
        text = page(rows) + "".join(f"\n\nNo rows in this run: {one}." for one in failed)
        title = "Leaner models, changed by hand"
        figures = [asdict(row) | {"valid": row.valid, "error": error(row)} for row in rows]
        write(NAME, title, machine, text, figures, results=options.results)
        print(f"{name}: {len(found)} rows", flush=True)
    return 1 if failed else 0


def _path(name: str) -> str:
    return next(one.path for one in read_corpus() if one.name == name)


def kept(results: Path) -> list[Row]:
    """The rows of the result file."""
    path = results / f"{NAME}.json"
    if not path.is_file():
        return []
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return [
        msgspec.convert({key: row[key] for key in ("script", "said", "measured", "null", "peak_bytes")}, Row)
        for row in figures
    ]


if __name__ == "__main__":
    sys.exit(main())
