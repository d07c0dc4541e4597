"""Differences between two processes of one script, and the coverage of ranges that include them.

Reads older results pages and measures nothing. A row of such a page has a null: the unchanged script ran twice, in two
processes that took turns. The constant of ``skyline/whatif/subject.py`` is set on pages of scripts that are not held
out, and scored on what-ifs of held-out scripts. Scripts that are measured only once (``unseen_scripts.toml``) are not
used.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from range_rows import Change, changes, content, held_out, null_of, with_null
from result_file import RESULTS, table, write

_PAGES = (
    "batch_curves",
    "ground_truth_intel_xeon_2t",
    "iteration_time",
    "iteration_time_public",
    "prediction_accuracy",
    "whatifs",
    "whatifs_amd",
    "whatifs_public",
    "whatifs_public_amd",
    "whatifs_together",
    "whatifs_triples_1",
    "whatifs_triples_2",
    "whatifs_triples_3",
)
"""Pages whose null compares two processes."""
_COVERED = 0.9


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes of one script that took turns: the time of the second over that of the first."""

    page: str
    processor: str
    script: str
    ratio: float

    @property
    def apart(self) -> float:
        """The difference of the two processes as an absolute logarithm."""
        return abs(math.log(self.ratio))


@dataclass(frozen=True, slots=True)
class Held:
    """The coverage of changes by their ranges, and the width of the ranges."""

    title: str
    changes: int
    held: int
    half_width: float


def pairs(results: Path) -> list[Pair]:
    """Every pair of the pages, once."""
    found: dict[Pair, None] = {}
    for page in _PAGES:
        machine, figures = content(results, page)
        for script, row in with_null(figures):
            found[Pair(page, machine["processor"], script, null_of(row))] = None
    return list(found)


def quantile(own: Sequence[Pair]) -> float:
    """The difference that nine in ten pairs do not exceed."""
    return sorted(one.apart for one in own)[math.ceil(_COVERED * len(own)) - 1]


def largest(found: Sequence[Pair]) -> float:
    """The quantile on the CPU whose processes differ most, because a range must be valid on every CPU."""
    processors = {one.processor for one in found}
    return max(quantile([one for one in found if one.processor == name]) for name in processors)


def held(title: str, chosen: Sequence[Change], spread: float) -> Held:
    """The coverage of some changes, with ``spread`` as the difference between processes."""
    ranges = [one.ranged(spread) for one in chosen]
    inside = sum(
        range_.low <= one.measured <= range_.high for one, range_ in zip(chosen, ranges, strict=True)
    )
    return Held(
        title, len(chosen), inside, statistics.fmean(range_.half_width / range_.value for range_ in ranges)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    unseen = held_out()
    setting = [one for one in pairs(options.results) if one.script not in unseen]
    by_processor: dict[str, list[Pair]] = {}
    for one in setting:
        by_processor.setdefault(one.processor, []).append(one)
    spread = round(largest(setting), 3)
    body = [
        [
            name,
            str(len(own)),
            str(len({one.script for one in own})),
            f"{statistics.median(one.apart for one in own):.1%}",
            f"{quantile(own):.1%}",
            f"{max(one.apart for one in own):.1%}",
        ]
        for name, own in sorted(by_processor.items())
    ]
    body.append(
        [
            "all",
            str(len(setting)),
            str(len({one.script for one in setting})),
            f"{statistics.median(one.apart for one in setting):.1%}",
            f"{quantile(setting):.1%}",
            f"{max(one.apart for one in setting):.1%}",
        ]
    )
    parts = [
        table(["processor", "pairs", "scripts", "median difference", "nine in ten within", "largest"], body),
        "Two processes of the unchanged script took turns. Held-out scripts are not among them. The pages: "
        + ", ".join(f"[{page}]({page}.md)" for page in _PAGES)
        + ".",
    ]
    rows = changes(options.results, [page for page in _PAGES if page.startswith("whatifs")])
    scored: list[tuple[Held, Held]] = []
    for size, words in ((1, "single changes"), (3, "three together")):
        for title, seen in (("held-out scripts", False), ("the examples, which set the constant", True)):
            for page in _PAGES:
                own = [
                    one
                    for one in rows
                    if one.page == page and len(one.names) == size and (one.script not in unseen) is seen
                ]
                if own:
                    name = f"{page}: {words}, {title}"
                    scored.append((held(name, own, 0.0), held(name, own, spread)))
    parts.append(f"## Ranges without and with {spread:.1%} between processes")
    parts.append(
        table(
            ["changes", "held before", "held with it", "mean half width before", "with it", "wider by"],
            [
                [
                    f"{now.title} ({now.changes})",
                    f"{before.held} of {before.changes}",
                    f"{now.held} of {now.changes}",
                    f"±{before.half_width:.1%}",
                    f"±{now.half_width:.1%}",
                    f"{now.half_width / before.half_width - 1:.0%}",
                ]
                for before, now in scored
            ],
        )
    )
    parts.append(
        "The predictions are those of the pages. Only their ranges are computed again. The goal of a range "
        "is to contain nine in ten."
    )
    figures = {
        "spread": spread,
        "pairs": [asdict(one) for one in setting],
        "ranges": [{"before": asdict(before), "with": asdict(now)} for before, now in scored],
    }
    print(
        write(
            "process_spread",
            "Differences between processes",
            Machine.here(),
            "\n\n".join(parts),
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
