"""Errors of what-ifs beyond their modelled ranges, from the used lists of scripts that are measured only once.

Reads older results pages and measures nothing. The range of an answer comes from the cases of its model. Errors
beyond it, such as effects that no model covers, determine an additional part of the range
(``skyline/analysis/estimate.py``) by split conformal prediction. Each list is scored with the part that the other
lists determine. Rows whose model changed after their list was measured are not used at all.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from range_rows import Change, changes
from result_file import RESULTS, table, write

from skyline.analysis.estimate import beyond
from skyline.whatif.conformal import COVERAGE, quantile
from skyline.whatif.subject import BETWEEN_PROCESSES

PAGES = tuple(f"unseen_whatifs_{number}" for number in range(3, 19))
"""Used lists whose ranges include the difference between processes."""
_STATED_PART = {
    PAGES[5]: 0.066,
    PAGES[6]: 0.066,
    PAGES[7]: 0.085,
    PAGES[8]: 0.085,
    PAGES[9]: 0.094,
    PAGES[10]: 0.094,
    PAGES[11]: 0.094,
    PAGES[12]: 0.115,
    PAGES[13]: 0.094,
    PAGES[14]: 0.085,
    PAGES[15]: 0.085,
}
"""The part beyond the models, for pages whose stated ranges include it."""
_BASES = (
    ("batch sizes that were measured, or lie between", ("measured", "interpolated")),
    ("parts of the script ran with the change", ("tried",)),
    ("computed only", ("modelled", "assumed")),
)
_LEAST = 0.01
"""Lower limit of a range, as a share of the likely value, because logarithms need an end above 0."""
_WRITTEN_LAYERS = ("kronecker", "low_rank", "embedding_factorization")


@dataclass(frozen=True, slots=True)
class Changed:
    """What-ifs whose model changed after a list, and the reason. ``script`` is the end of the paths (empty: all)."""

    last_page: str
    names: tuple[str, ...]
    reason: str
    script: str = ""

    def covers(self, row: Change) -> bool:
        """True if the row comes from the earlier model."""
        named = {name.partition("=")[0] for name in row.names}
        return (
            PAGES.index(row.page) <= PAGES.index(self.last_page)
            and bool(named & set(self.names))
            and row.script.endswith(self.script)
        )


CHANGED = (
    Changed(PAGES[3], ("compile",), "recurrent layers stay as they are; calls at the profile's own cost"),
    Changed(PAGES[3], ("amp",), "calls of casts that were not tried", "lstm-pytorch-implementation/train.py"),
    Changed(PAGES[2], ("inference_mode",), "the rewrite changed what training calls too"),
    Changed(PAGES[4], ("compile",), "a model that is a mere container never runs", "code/example.py"),
    Changed(PAGES[6], ("compile",), "guards within iterations, and of each parameter"),
    Changed(
        PAGES[10], _WRITTEN_LAYERS, "products were tried with sleeping threads; Python's time counted twice"
    ),
    Changed(
        PAGES[10], ("compile",), "plain arithmetic by its count of numbers; operators without generated code"
    ),
    Changed(PAGES[10], ("checkpointing",), "calls of the recomputation at the cost of calls in the step"),
    Changed(PAGES[13], ("kronecker",), "layers are tried on the machine"),
    Changed(
        PAGES[14],
        ("low_rank", "kronecker"),
        "large gradients go back to the system, and are summed once",
        "Conditonal_DCGAN.py",
    ),
)


def kept(rows: Iterable[Change]) -> list[Change]:
    """The rows whose models have not changed since."""
    return [row for row in rows if not any(one.covers(row) for one in CHANGED)]


def modelled(row: Change) -> tuple[float, float]:
    """The width of the modelled range below and above the likely value, as logarithms, with the process difference."""
    range_ = row.ranged(BETWEEN_PROCESSES.value)
    stated = beyond(range_.value, len(row.names), _STATED_PART.get(row.page, 0.0))
    low = max(range_.low, _LEAST * range_.value)
    sides = (math.log(range_.value / low), math.log(range_.high / range_.value))
    below, above = (math.sqrt(max(0.0, side**2 - stated**2)) for side in sides)
    return below, above


def lacking(row: Change) -> float:
    """The part that puts this row inside its range, scaled to a single change of full effect."""
    error = math.log(row.measured / row.predicted.value)
    below, above = modelled(row)
    short = math.sqrt(max(0.0, error**2 - (above if error > 0 else below) ** 2))
    share = beyond(row.predicted.value, len(row.names), 1.0)
    return 0.0 if not short else short / share if share else math.inf


def set_by(rows: Sequence[Change]) -> float:
    """The part that is enough for nine in ten of these rows."""
    found = quantile([lacking(row) for row in rows])
    assert found is not None, "too few rows"
    return found


def holds(row: Change, whole: float) -> tuple[bool, float]:
    """True if the range with this part contains the measured value, and half of the range's width."""
    more = beyond(row.predicted.value, len(row.names), whole)
    below, above = (math.hypot(side, more) for side in modelled(row))
    error = math.log(row.measured / row.predicted.value)
    return -below <= error <= above, (math.exp(above) - math.exp(-below)) / 2


def scored(rows: Sequence[Change]) -> tuple[list[float], list[tuple[Change, bool, float]]]:
    """The part with each page left out, and each row scored with the part from the other pages."""
    parts: list[float] = []
    found: list[tuple[Change, bool, float]] = []
    for page in dict.fromkeys(row.page for row in rows):
        parts.append(set_by([row for row in rows if row.page != page]))
        found += [(row, *holds(row, parts[-1])) for row in rows if row.page == page]
    return parts, found


def by_basis(rows: Sequence[Change], whole: float) -> list[list[str]]:
    """A line for the single changes of each basis: coverage without and with the part, and their own part."""
    lines: list[list[str]] = []
    for title, names in _BASES:
        own = [row for row in rows if len(row.names) == 1 and row.provenance in names]
        needed = sorted(map(lacking, own))
        rank = math.ceil((len(own) + 1) * COVERAGE.value)
        lines.append(
            [
                title,
                str(len(own)),
                *(
                    f"{inside} ({inside / max(1, len(own)):.0%})"
                    for part in (0.0, whole)
                    for inside in [sum(holds(row, part)[0] for row in own)]
                ),
                f"{needed[rank - 1]:.1%}" if 0 < rank <= len(own) else "too few",
            ]
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    every = changes(options.results, PAGES)
    rows = kept(every)
    parts, with_part = scored(rows)
    whole = round(set_by(rows), 3)
    body = [
        [
            title,
            str(len(chosen)),
            *(
                text
                for inside, widths in (
                    ([holds(row, 0.0)[0] for row, *_ in chosen], [holds(row, 0.0)[1] for row, *_ in chosen]),
                    ([one for _, one, _ in chosen], [one for *_, one in chosen]),
                )
                for text in (
                    f"{sum(inside)} ({statistics.fmean(inside):.0%})",
                    f"±{statistics.median(widths):.1%}",
                )
            ),
        ]
        for title, several in (("single changes", False), ("three together", True))
        if (chosen := [one for one in with_part if (len(one[0].names) > 1) is several])
    ]
    head = ["changes", "rows", "held before", "median half width", "held with it", "median half width"]
    left = "".join(
        f"\n- {', '.join(f'`{name}`' for name in one.names)} up to [{one.last_page}]({one.last_page}.md)"
        f"{f' on `{one.script}`' if one.script else ''}: {one.reason}."
        for one in CHANGED
    )
    bases = table(
        ["single changes by basis", "rows", "held without the part", "held with it", "their own part"],
        by_basis(rows, whole),
    )
    text = (
        f"{table(head, body)}\n\n{bases}\n\nNine in ten of {len(rows)} changes are off by less than {whole:.1%} beyond "
        "their modelled range, where a single change has an effect of 5 % or more; "
        f"{min(parts):.1%} to {max(parts):.1%} with one list left out. "
        "Each list is scored with the part that the others set. The predictions are those of "
        f"the pages. {len(every) - len(rows)} rows are left out, because their model changed afterwards:\n{left}"
    )
    figures = {"whole": whole, "left_out": parts, "rows": [asdict(row) for row in rows]}
    print(
        write(
            "beyond_models",
            "Errors beyond the modelled ranges",
            Machine.here(),
            text,
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
