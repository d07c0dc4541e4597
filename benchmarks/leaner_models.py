"""A table of changes of the model itself, predicted first and then measured, from the pages of other scripts.

Reads the figures of ``pruning.py``, ``adaptive_softmax.py``, ``fused_jobs.py``, ``divided_models.py``,
``sweep_curves.py`` and of what-ifs on whole scripts (``leaner_rows.py``, ``whatifs.py``, ``unseen_whatifs.py``) in a
folder of result files. It measures nothing. Each row is a ratio of iteration times, changed over unchanged. For fused
runs it is the fused iteration over an iteration of one run, and "no change" takes as many iterations as there are runs.
For a curve it is the time at the last value over the time at the first value, among values that did not run for the
answer. Rows of shares compare a share of lookups or of rows. Their errors are differences of shares, because a ratio of
two small shares says nothing. An answer that nothing is gained has no error: it is right if the form by hand gains
nothing. The range of an unknown share is from none to all, and counts neither as right nor as wrong. A row whose null
differs from 1 by more than ``NULL_TOLERANCE`` is left out of the sums. Signs are counted twice (``SIGNS``).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, hypot, log
from pathlib import Path
from typing import Any

from machine import Machine
from result_file import RESULTS, table, write

from skyline.interval import median

NULL_TOLERANCE = 0.05
CHANGES = (
    *(
        "prune",
        "low_rank",
        "embedding_factorization",
        "adaptive_softmax",
        "fuse_jobs",
        "kronecker",
        "better_graph",
    ),
    *("serialize", "scan_backward", "hot_embeddings", "stale_embeddings"),
    *("zeros", "widths", "checkpoint_every"),
)
_NO_GAIN = "no gain"
_GAIN = 0.02
"""Smallest share of an iteration that counts as a gain."""
SIGNS = (
    "Signs are counted on rows whose measured effect exceeds 2 % and the departure of the null. *Right sign*: the "
    "likely value lies on the measured side of no change, however wide its range. *Clear and right*: of the answers "
    "whose whole range lies on one side, those on the measured one; the others, whose range holds no change, are "
    "shown to users as no clear gain. An answer that nothing is gained is clear."
)
"""The rule of both counts, as on the page."""
SHARES = (
    "Errors of shares are differences, in points: 0.02 for 0.01 is one point off, which the sums take as 1 %."
)
_WHOLE_SCRIPTS = (
    "leaner_rows",
    "leaner_again",
    "leaner_scripts",
    "unseen_whatifs",
    "unseen_whatifs_3",
    "unseen_whatifs_4",
    "unseen_whatifs_5",
    "unseen_whatifs_6",
    "unseen_whatifs_7",
    "unseen_whatifs_8",
    "unseen_whatifs_9",
    "unseen_whatifs_10",
    "unseen_whatifs_11",
    "unseen_whatifs_12",
    "unseen_whatifs_13",
    "unseen_whatifs_14",
    "unseen_whatifs_15",
    "unseen_whatifs_16",
    "unseen_whatifs_17",
    "unseen_whatifs_18",
)


@dataclass(frozen=True, slots=True)
class LeanerRow:
    """One change of one script; ``unchanged`` is the ratio that "no change" predicts."""

    whatif: str
    script: str
    change: str
    measured: float
    predicted: float
    low: float
    high: float
    unchanged: float
    null: float
    page: str
    nothing: bool = False
    """True if the answer was that nothing is gained."""
    share: bool = False
    """True if shares of lookups, rows or values are compared instead of times."""

    @property
    def error(self) -> float:
        """The predicted over the measured ratio, minus one. For a share, the difference."""
        return self._off(self.predicted)

    @property
    def unchanged_error(self) -> float:
        """The error of the prediction that nothing changes."""
        return self._off(self.unchanged)

    def _off(self, said: float) -> float:
        return said - self.measured if self.share else said / self.measured - 1

    @property
    def valid(self) -> bool:
        """True if two runs of the unchanged script took the same time."""
        return abs(self.null - 1) <= NULL_TOLERANCE

    @property
    def holds(self) -> bool:
        """True if the predicted range contains the measured ratio, or if nothing is gained as predicted."""
        if self.nothing:
            return self.measured >= 1 - _GAIN
        return self.low <= self.measured <= self.high

    @property
    def bounded(self) -> bool:
        """False if the range of a share is from none to all, so that the share is not known."""
        return (self.low, self.high) != (0.0, 1.0)

    @property
    def sign_seen(self) -> bool:
        """True if the effect is larger than the deviation of the null."""
        return abs(self.measured / self.unchanged - 1) > max(abs(self.null - 1), _GAIN)

    @property
    def right_sign(self) -> bool:
        """True if the predicted and the measured effect have the same sign."""
        return (self.predicted < self.unchanged) == (self.measured < self.unchanged)

    @property
    def clear(self) -> bool:
        """True if the whole range is on one side of no change, or if the answer is that nothing is gained."""
        return self.nothing or not self.low <= self.unchanged <= self.high


def _figures(results: Path, name: str) -> Any:
    path = results / f"{name}.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    # The oldest files have only the figures.
    return content["figures"] if isinstance(content, dict) else content


def _of_scripts(found: Sequence[Mapping[str, Any]], page: str) -> Iterator[LeanerRow]:
    for one in found:
        said = one["said"]
        names = [name.partition("=")[0] for name in said["names"]]
        if len(names) != 1 or names[0] not in CHANGES:
            continue
        yield LeanerRow(
            names[0], one["script"], said["names"][0], one["measured"]["value"],
            said["ratio"], said["low"], said["high"], _unchanged(said), one["null"]["value"], page,
            said["provenance"].startswith(_NO_GAIN), _is_share(said),
        )  # fmt: skip


def _is_share(said: Mapping[str, Any]) -> bool:
    return said["provenance"].startswith("share")


def _unchanged(said: Mapping[str, Any]) -> float:
    # For a share, the rule gives its value without any skew, or without training.
    return float(said["rule"]) if _is_share(said) else 1.0


def _of_divided(found: Sequence[Mapping[str, Any]]) -> Iterator[LeanerRow]:
    for one in found:
        nothing = one["predicted"] == 1
        yield LeanerRow(
            one["whatif"], one["script"], one["whatif"], one["measured"], one["predicted"], one["low"], one["high"],
            1.0, one["null"], "divided_models", nothing,
        )  # fmt: skip


def _of_curves(found: Sequence[Mapping[str, Any]]) -> Iterator[LeanerRow]:
    for one in found:
        told = [point for point in one["points"] if point.get("provenance") != "measured"]
        if len(told) < 2:
            continue
        first, last = told[0], told[-1]
        script, _, change = one["name"].partition(" ")
        said, seen = (last[name] / first[name] for name in ("predicted_ms", "measured_ms"))
        low, high = (last[name] / first[name] for name in ("low_ms", "high_ms"))
        if last.get("provenance") == "interpolated":
            low, high = (said * _ratio_end(first, last, *ends) for ends in (("high", "low"), ("low", "high")))
        # Without runs, the ranges of both times share the error of one machine, so they do not bound the ratio.
        yield LeanerRow("sweep", script, change, seen, said, low, high, 1.0, 1.0, "sweep_curves")


def _ratio_end(first: Mapping[str, Any], last: Mapping[str, Any], end: str, other: str) -> float:
    """An end of the range of a ratio, relative to the ratio. Errors of interpolated times are independent."""
    apart = (
        log(point[f"{name}_ms"] / point["predicted_ms"]) for point, name in ((first, end), (last, other))
    )
    size = hypot(*apart)
    return exp(size if other == "high" else -size)


def _of_softmax(found: Sequence[Mapping[str, Any]]) -> Iterator[LeanerRow]:
    for one in found:
        base_ms = one["baseline"]["iteration_ms"]["value"]
        said = one["predicted"]["iteration_ms"]
        arguments = " ".join(one.get("arguments", ()))
        yield LeanerRow(
            "adaptive_softmax", f"{Path(one['script']).name} {arguments}".strip(), one["whatifs"][0],
            one["measured"]["ratio"]["value"], said["value"] / base_ms, said["low"] / base_ms, said["high"] / base_ms,
            1.0, one["null_ratio"], "adaptive_softmax",
        )  # fmt: skip


def _of_fused(found: Sequence[Mapping[str, Any]]) -> Iterator[LeanerRow]:
    for one in found:
        yield LeanerRow(
            "fuse_jobs", one["script"], f"fuse_jobs={one['jobs']}", one["measured"], one["predicted"],
            one["low"], one["high"], float(one["jobs"]), one["null"], "fused_jobs",
        )  # fmt: skip


def rows(results: Path) -> tuple[list[LeanerRow], list[str]]:
    """All rows of a folder, and the names of missing pages."""
    found: list[LeanerRow] = []
    missing: list[str] = []
    pruned = _figures(results, "pruning")
    softmax, fused = _figures(results, "adaptive_softmax"), _figures(results, "fused_jobs")
    divided, curves = _figures(results, "divided_models"), _figures(results, "sweep_curves")
    found += _of_scripts(pruned["rows"], "pruning") if pruned else ()
    found += _of_softmax(softmax) if softmax else ()
    found += _of_fused(fused) if fused else ()
    found += _of_divided(divided["rows"]) if divided else ()
    found += _of_curves(curves) if curves else ()
    missing += [
        name
        for name, given in (
            ("pruning", pruned),
            ("adaptive_softmax", softmax),
            ("fused_jobs", fused),
            ("divided_models", divided),
            ("sweep_curves", curves),
        )
        if not given
    ]
    for name in _WHOLE_SCRIPTS:
        given = _figures(results, name)
        if given:
            found += _of_scripts(given["rows"] if isinstance(given, dict) else given, name)
        else:
            missing.append(name)
    return list(_latest(found)), missing


def _latest(found: Sequence[LeanerRow]) -> Iterator[LeanerRow]:
    """The rows without duplicates: a change that was measured again has the valid row of the first page in the list.

    A script may be on a page twice with other arguments. Its rows are in the same order on each page.
    """
    counts = Counter[tuple[str, str, str, str]]()
    keyed: list[tuple[tuple[str, str, str, int], LeanerRow]] = []
    for one in found:
        counts[one.page, one.whatif, one.script, one.change] += 1
        place = counts[one.page, one.whatif, one.script, one.change]
        keyed.append(((one.whatif, one.script, one.change, place), one))
    valid = {key for key, one in keyed if one.valid}
    seen: set[tuple[str, str, str, int]] = set()
    for key, one in keyed:
        if key not in seen and (one.valid or key not in valid):
            seen.add(key)
            yield one


def body(found: Sequence[LeanerRow], missing: Sequence[str]) -> str:
    """A line for each what-if, then each row."""
    by_whatif: dict[str, list[LeanerRow]] = defaultdict(list)
    for one in found:
        by_whatif[one.whatif].append(one)
    sums = [_sum(name, given) for name, given in by_whatif.items()] + [_sum("all", found)]
    head = [
        "what-if", "rows", "left out", "scripts", "median error", "worst", "range contains", "right sign",
        "clear and right", "no change",
    ]  # fmt: skip
    listed = [
        [
            one.whatif,
            one.script,
            one.change,
            f"{one.measured:.3f}",
            "no gain" if one.nothing else f"{one.predicted:.3f} [{one.low:.3f}, {one.high:.3f}]",
            "" if one.nothing else _off(one.error, one),
            _off(one.unchanged_error, one),
            ("yes" if one.holds else "no") if one.bounded else "not known",
            _sign(one),
            f"{one.null:.3f}" + ("" if one.valid else " off"),
            f"[{one.page}]({one.page}.md)",
        ]
        for one in found
    ]
    titles = [
        "what-if", "script", "change", "measured", "predicted", "error", "no change", "holds", "sign", "null", "page",
    ]  # fmt: skip
    text = f"{table(head, sums)}\n\n{SIGNS} {SHARES}\n\n{table(titles, listed)}"
    if missing:
        text += f"\n\nNot there: {', '.join(missing)}."
    return text


def _off(error: float, row: LeanerRow) -> str:
    return f"{100 * error:+.1f} points" if row.share else f"{error:+.1%}"


def _sign(row: LeanerRow) -> str:
    """The cell of the table. Empty if no effect beyond the noise was measured."""
    if not row.sign_seen:
        return ""
    said = "right" if row.right_sign else "wrong"
    return said if row.clear else f"{said}, not clear"


def _sum(name: str, found: Sequence[LeanerRow]) -> list[str]:
    valid = [one for one in found if one.valid]
    if not valid:
        return [name, "0", str(len(found)), *[""] * 7]
    errors = [abs(one.error) for one in valid if not one.nothing]
    bounded = [one for one in valid if one.bounded]
    seen = [one for one in valid if one.sign_seen]
    clear = [one for one in seen if one.clear]
    return [
        name,
        str(len(valid)),
        str(len(found) - len(valid)),
        str(len({one.script for one in valid})),
        f"{median(errors):.1%}" if errors else "",
        f"{max(errors):.1%}" if errors else "",
        f"{sum(one.holds for one in bounded)} of {len(bounded)}",
        f"{sum(one.right_sign for one in seen)} of {len(seen)}",
        f"{sum(one.right_sign for one in clear)} of {len(clear)}",
        f"{median([abs(one.unchanged_error) for one in valid]):.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    found, missing = rows(options.results)
    figures = [asdict(one) | {"error": one.error, "valid": one.valid} for one in found]
    print(
        write(
            "leaner_models",
            "Leaner models, predicted and measured",
            Machine.here(),
            body(found, missing),
            figures,
            results=options.results,
        )
    )


if __name__ == "__main__":
    main()
