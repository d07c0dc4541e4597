"""Compares predicted time and memory of two batch sizes with measurements; the predictions use three other sizes.

Each script is profiled once, at its own batch size and at two others. Everything is predicted from these three sizes
before anything else runs. One predicted size is inside the widest gap between measured sizes. The other is outside
them, at twice the largest. Then the edits that Skyline itself would make are measured in turns with the unchanged
script, which runs twice (the null). The prediction is compared with two simple ones. "No change" keeps time and memory.
"In proportion" multiplies both by the ratio of the batch sizes.

``--rows FILE`` stores the rows of each finished script, and a later run continues from them. Scripts are given as
``"PATH [ARGUMENTS]"``; without any, the examples are measured. ``--corpus`` adds public scripts of ``corpus.toml`` by
name.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from kept_rows import Deadline
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from script_rows import add_options, is_one_of_the_corpus, rows_of_all, write_own
from whatifs import KEEPS_MEMORY, Row, WhatIfScript, measured, said

from skyline.analysis.analyse import analyse
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.interval import Interval
from skyline.verification.change import change
from skyline.whatif.question import Choice, Question

BATCH_POINTS = 2
"""Sizes that the profile measures in addition to the script's own."""
BEYOND = 2
BARS = {"time": 0.05, "peak memory": 0.03}


@dataclass(slots=True)
class HeldOut:
    """One batch size that the profile did not measure."""

    row: Row
    sizes: tuple[int, ...]
    size: int
    base: int
    base_peak_bytes: int
    seen: dict[int, Interval] | None = None
    """The measured ratios that the prediction was made from."""

    @property
    def beyond(self) -> bool:
        """True if the size is larger than all measured sizes."""
        return self.size > max(self.sizes)

    @property
    def peak_error(self) -> float | None:
        """Predicted over measured peak, minus one."""
        return self.row.said.peak_bytes / self.row.peak_bytes - 1 if self.row.peak_bytes else None


def held_out(sizes: Sequence[int], most: int | None) -> list[int]:
    """The middle of the widest gap, and twice the largest size if the data set is large enough."""
    left, right = max(pairwise(sorted(sizes)), key=lambda pair: pair[1] / pair[0])
    inside = round(math.sqrt(left * right))
    chosen = [inside] if left < inside < right else []
    beyond = max(sizes) * BEYOND
    return chosen + ([beyond] if most is None or beyond <= most else [])


def validate(subject: WhatIfScript, options: argparse.Namespace) -> list[HeldOut]:
    """The rows of one script, run in a folder, by default a new one."""
    with tempfile.TemporaryDirectory() as folder:
        working = options.folder or Path(folder)
        request = replace(subject.request(working), batch_points=BATCH_POINTS)
        profile = capture(request, progress=lambda _: None)
        analysis = analyse(profile)
        curve = analysis.baseline.curve
        sizes = tuple(point.batch_size for point in curve.points)
        if curve.base is None or len(sizes) < BATCH_POINTS + 1:
            print(f"{subject.name}: {curve.reason or f'measured at {sizes} only'}", file=sys.stderr)
            return []
        most = min((one.dataset_size for one in profile.loaders if one.dataset_size), default=None)
        asked = held_out(sizes, most)
        questions = [(Choice("batch_size", str(size)),) for size in asked]
        changes = [
            (said(analysis, choices), change(analysis, Question.of(choices), profile.arguments))
            for choices in questions
        ]
        print(f"{subject.name}: measured at {sizes}, held out {asked}", file=sys.stderr, flush=True)
        seen = {point.batch_size: point.ratio for point in curve.points}
        rows = measured(subject, working, changes, options.rounds)
        return [HeldOut(row, sizes, _size(row), curve.base, profile.peak_bytes, seen) for row in rows]


def _size(row: Row) -> int:
    return int(row.said.names[0].partition("=")[2])


def own(subject: WhatIfScript, options: argparse.Namespace) -> list[HeldOut]:
    """The rows of a script that runs unchanged."""
    try:
        rows = validate(subject, options)
    except SkylineError as failed:
        print(f"{subject.name}: {failed.message}", file=sys.stderr)
        return []
    for one in rows:
        print("  ", *_line(one), file=sys.stderr, flush=True)
    return rows


def _line(one: HeldOut) -> list[str]:
    row, proportion = one.row, one.size / one.base
    measured_ = row.measured
    return [
        row.script,
        " ".join(map(str, one.sizes)),
        f"{one.size}" + (" beyond" if one.beyond else " inside"),
        f"{measured_.value:.3f} [{measured_.low:.3f}, {measured_.high:.3f}]",
        f"{row.said.ratio:.3f} [{row.said.low:.3f}, {row.said.high:.3f}]",
        f"{row.error:+.1%}",
        f"{proportion / measured_.value - 1:+.1%}",
        f"{1 / measured_.value - 1:+.1%}",
        "yes" if row.holds else "no",
        "" if one.peak_error is None else f"{one.peak_error:+.1%}",
        "" if not row.peak_bytes else f"{one.base_peak_bytes * proportion / row.peak_bytes - 1:+.1%}",
        f"{row.null.value:.3f}" + ("" if row.valid else " off"),
    ]


HEAD = (
    "script", "measured at", "held out", "measured ratio", "predicted", "error", "in proportion", "no change",
    "holds", "peak", "peak in proportion", "null",
)  # fmt: skip


def page(rows: Sequence[HeldOut]) -> str:
    """The table and its summary."""
    valid = [one for one in rows if one.row.valid]
    parts = [table(list(HEAD), [_line(one) for one in rows])]
    lines: list[list[str]] = []
    for title, chosen in (
        ("inside", [one for one in valid if not one.beyond]),
        ("beyond by twice", [one for one in valid if one.beyond]),
        ("all", valid),
    ):
        if chosen:
            lines.append([title, *_figures(chosen)])
    head = ["held out", "sizes", "time: median error", "worst", "in proportion", "no change", "range holds"]
    parts.append(table([*head, "peak: median error", "worst"], lines))
    parts.append(
        f"Goals: median error of the time {BARS['time']:.0%}, of the peak memory {BARS['peak memory']:.0%}. "
        f"{len(rows) - len(valid)} of {len(rows)} rows have a null outside the tolerance and are left out of "
        "the sums. Each ratio is an iteration time divided by that of the unchanged script. Measured intervals are "
        "95 % bootstrap intervals of the median over rounds. `holds` is yes if the predicted and the "
        "measured range overlap. `peak` is the predicted peak of live tensors, compared with the peak of the "
        "changed script."
    )
    return "\n\n".join(parts)


def _figures(chosen: Sequence[HeldOut]) -> list[str]:
    errors = [abs(one.row.error) for one in chosen]
    ratios = [(one.size / one.base, one.row.measured.value) for one in chosen]
    peaks = [abs(error) for one in chosen if (error := one.peak_error) is not None]
    return [
        str(len(chosen)),
        f"{statistics.median(errors):.1%}",
        f"{max(errors):.1%}",
        f"{statistics.median(abs(said_ / real - 1) for said_, real in ratios):.1%}",
        f"{statistics.median(abs(1 / real - 1) for _, real in ratios):.1%}",
        f"{sum(one.row.holds for one in chosen)} of {len(chosen)}",
        f"{statistics.median(peaks):.1%}" if peaks else "",
        f"{max(peaks):.1%}" if peaks else "",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--within",
        type=float,
        default=math.inf,
        metavar="S",
        help="start no other script after this time in s",
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    validated = partial(own, options=options)
    if is_one_of_the_corpus(options):
        write_own(validated, options)
        return 0
    rows = rows_of_all(validated, options, program=__file__, kind=HeldOut, deadline=Deadline(options.within))
    if not rows:
        return 1
    figures = [
        asdict(one) | {"valid": one.row.valid, "error": one.row.error, "peak_error": one.peak_error}
        for one in rows
    ]
    title = "Batch-size curves from three measured sizes"
    print(write("batch_curves", title, machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
