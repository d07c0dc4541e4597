"""Draws the share of measurements inside ranges over the intended share, by what-if.

Predicted profiles: reads ``results/whatif_pairs_published.json``. Half of the model families stretch the range of each
what-if to each goal (split conformal prediction). The point is the share of the other half inside the range. What-ifs
with fewer than 20 pairs on either side are left out. Draws ``docs/images/reliability.svg``.

Measured profiles: reads the latest pages of changes measured on CPUs, without the scripts that are measured only once.
Their ranges are intended to contain nine in ten. For other goals, their half widths in logarithms are scaled as for a
normal distribution. Draws ``docs/images/reliability_measured.svg`` and writes ``results/reliability.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist, fmean

import msgspec
from machine import Machine
from range_rows import Change, changes, held_out
from result_file import RESULTS, table, write
from whatif_pairs_published import Pair, sets_widths

from skyline.interval import Interval
from skyline.whatif.conformal import COVERAGE, LEAST_CASES, ScoredRange, factor_of, stretched
from skyline.whatif.subject import BETWEEN_PROCESSES

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "images"
GOALS = tuple(goal / 10 for goal in range(1, 10))
_MEASURED = (
    "batch_curves",
    "ground_truth_intel_xeon_2t",
    "whatifs",
    "whatifs_amd",
    "whatifs_public",
    "whatifs_public_amd",
    "whatifs_triples_3",
)
_LEAST_DRAWN = 10
"""A what-if with fewer measured changes has a row in the table but no line in the picture."""
_TOGETHER = "three together"
_SIDE, _EDGE = 260, 48
_COLOURS = (
    "#1f77b4",
    "#d95f02",
    "#1b9e77",
    "#7570b3",
    "#e7298a",
    "#66a61e",
    "#b8860b",
    "#666666",
    "#a6761d",
)


def reliability(pairs: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """The goals and the shares inside, by what-if, on families that set nothing."""
    found: dict[str, list[tuple[float, float]]] = {}
    for name in dict.fromkeys(pair.whatif for pair in pairs):
        own = [
            (sets_widths(pair), ScoredRange(Interval(pair.predicted, pair.low, pair.high), pair.measured))
            for pair in pairs
            if pair.whatif == name
        ]
        setting, scored = ([case for sets, case in own if sets is side] for side in (True, False))
        if min(len(setting), len(scored)) < LEAST_CASES.value:
            continue
        points: list[tuple[float, float]] = []
        for goal in GOALS:
            factor = factor_of(setting, goal)
            assert factor is not None
            points.append((goal, fmean(case.score <= factor for case in scored)))
        found[name] = points
    return found


def by_whatif(rows: Sequence[Change]) -> dict[str, list[Change]]:
    """Changes by what-if, the most frequent first. Several what-ifs together count as one kind."""
    found: dict[str, list[Change]] = {}
    for row in rows:
        name = _TOGETHER if len(row.names) > 1 else "".join(row.names).partition("=")[0]
        found.setdefault(name, []).append(row)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def held_at(rows: Sequence[Change], goal: float) -> float:
    """The share of measured values inside ranges that are intended to contain the share ``goal``."""
    factor = _deviations(goal) / _deviations(COVERAGE.value)
    ranges = [stretched(row.ranged(BETWEEN_PROCESSES.value), factor) for row in rows]
    return fmean(said.low <= row.measured <= said.high for row, said in zip(rows, ranges, strict=True))


def _deviations(goal: float) -> float:
    return NormalDist().inv_cdf((1 + goal) / 2)


def measured_page(rows: Sequence[Change]) -> str:
    """The table of measured changes by what-if."""
    unseen = held_out()
    lines: list[list[str]] = []
    for name, own in by_whatif(rows).items():
        inside = [_holds(row) for row in own]
        apart = [held for row, held in zip(own, inside, strict=True) if row.script in unseen]
        widths = [row.ranged(BETWEEN_PROCESSES.value) for row in own]
        lines.append(
            [
                name,
                f"{sum(inside)} of {len(own)}",
                f"{sum(apart)} of {len(apart)}",
                f"±{fmean(said.half_width / said.value for said in widths):.1%}",
                *(f"{held_at(own, goal):.0%}" for goal in (0.5, 0.8)),
            ]
        )
    head = ["what-if", "inside", "of these on held-out scripts", "mean half width"]
    pages = ", ".join(f"[{page}]({page}.md)" for page in _MEASURED)
    return (
        f"{table([*head, 'inside at the goal of 50 %', 'of 80 %'], lines)}\n\nMeasured changes on processors, from "
        f"{pages}. The goal of a range is to contain nine in ten. Ranges include the difference between "
        "processes. The predictions are those of the pages. Most scripts set constants of some model. "
        "Held-out scripts set none. For a lower goal, both halves of a range are scaled as for a normal "
        "distribution. With ten changes, the share inside is known to about ±20 points."
    )


def _holds(row: Change) -> bool:
    said = row.ranged(BETWEEN_PROCESSES.value)
    return said.low <= row.measured <= said.high


def drawn(curves: dict[str, list[tuple[float, float]]]) -> str:
    """The picture as SVG."""

    def at(goal: float, held: float) -> str:
        return f"{_EDGE + goal * _SIDE:.1f},{_EDGE / 2 + (1 - held) * _SIDE:.1f}"

    parts = [
        f'<rect x="{_EDGE}" y="{_EDGE / 2}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#888"/>',
        f'<polyline points="{at(0, 0)} {at(1, 1)}" stroke="#888" stroke-dasharray="4"/>',
    ]
    for number in range(0, 11, 2):
        x, y = at(number / 10, number / 10).split(",")
        parts.append(
            f'<text x="{x}" y="{_SIDE + _EDGE / 2 + 16}" text-anchor="middle">{number * 10} %</text>'
        )
        parts.append(f'<text x="{_EDGE - 6}" y="{y}" text-anchor="end">{number * 10} %</text>')
    for place, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        line = " ".join(at(*point) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in points:
            x, y = at(*point).split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>')
        y = _EDGE / 2 + 18 + 16 * place
        parts.append(f'<text x="{_EDGE + 10}" y="{y}" fill="{colour}">{name}</text>')
    parts.append(
        f'<text x="{_EDGE + _SIDE / 2}" y="{_SIDE + _EDGE / 2 + 34}" text-anchor="middle">goal (held, upwards)</text>'
    )
    width, height = _SIDE + 1.5 * _EDGE, _SIDE + 1.4 * _EDGE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
    body = "\n".join(parts)
    return f'{head} font-family="sans-serif" font-size="11" fill="#666">\n{body}\n</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder of the pictures")
    options = parser.parse_args()
    content = json.loads((options.results / "whatif_pairs_published.json").read_text(encoding="utf-8"))
    curves = reliability(msgspec.convert(content["figures"]["pairs"], list[Pair]))
    (options.pictures / "reliability.svg").write_text(drawn(curves), encoding="utf-8")
    rows = changes(options.results, _MEASURED)
    measured = {
        name: [(goal, held_at(own, goal)) for goal in GOALS]
        for name, own in by_whatif(rows).items()
        if len(own) >= _LEAST_DRAWN
    }
    (options.pictures / "reliability_measured.svg").write_text(drawn(measured), encoding="utf-8")
    published = table(
        ["what-if", *(f"{goal:.0%}" for goal in GOALS)],
        [[name, *(f"{held:.0%}" for _, held in points)] for name, points in curves.items()],
    )
    body = (
        f"## Measured profiles\n\n{measured_page(rows)}\n\n## Predicted profiles\n\n{published}\n\nShare of "
        "[published pairs](whatif_pairs_published.md) inside the range, by goal, on model families that set "
        "no factor."
    )
    figures = {"measured": measured, "published": curves}
    print(
        write("reliability", "Reliability of ranges", Machine.here(), body, figures, results=options.results)
    )


if __name__ == "__main__":
    main()
