"""Draws the share of published pairs that ranges hold over the share that they are meant to hold, by what-if.

Reads ``results/whatif_pairs_published.json``. Half of the model families stretch the range of each what-if to each goal
(split conformal prediction); the point is the share of the other half inside of it. What-ifs with fewer than 20 pairs
on either side are left out. Writes ``docs/images/reliability.svg``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec
from result_file import RESULTS
from whatif_pairs_published import Pair, sets_widths

from skyline.interval import Interval
from skyline.whatif.conformal import LEAST_CASES, ScoredRange, factor_of

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "reliability.svg"
GOALS = tuple(goal / 10 for goal in range(1, 10))
_SIDE, _EDGE = 260, 48
_COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3")


def reliability(pairs: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """By what-if the goal and the share that held, on families that set nothing."""
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
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    content = json.loads((options.results / "whatif_pairs_published.json").read_text(encoding="utf-8"))
    curves = reliability(msgspec.convert(content["figures"]["pairs"], list[Pair]))
    options.picture.write_text(drawn(curves), encoding="utf-8")
    for name, points in curves.items():
        print(name, " ".join(f"{goal:.0%}:{held:.0%}" for goal, held in points))


if __name__ == "__main__":
    main()
