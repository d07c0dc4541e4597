"""The result page of the corpus: a row for each script, and the sums."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from corpus_script import CorpusScript
from result_file import table

Row = Mapping[str, Any]
_HEAD = (
    "script",
    "what it is like",
    "works",
    "headline, s",
    "by hand, ms",
    "Skyline, ms",
    "ratio (null)",
    "overhead",
    "attributed",
    "one iteration, or why not",
)


def page(corpus: Sequence[CorpusScript], rows: Mapping[str, Row], mended: str, threads: int) -> str:
    """The page in Markdown; scripts without a row are not in it."""
    done = [(script, rows[script.name]) for script in corpus if script.name in rows]
    lines = [_line(script, row) for script, row in done]
    return "\n\n".join((summary([row for _, row in done]), table(_HEAD, lines), _notes(mended, threads)))


def summary(rows: Sequence[Row]) -> str:
    """The sums: how many work of those that can run here, and the medians."""
    able = [row for row in rows if "works" in row and (row["works"] or row.get("runs_by_hand", True))]
    unable = sum("works" in row for row in rows) - len(able)
    not_run = sum("not_run" in row for row in rows)
    working = [row for row in able if row["works"]]
    share = len(working) / len(able) if able else 0.0
    counted = f"{len(rows)} listed, {not_run} not run, {unable} fail here without Skyline too."
    parts = [f"{counted} **{len(working)} of the other {len(able)} work unmodified ({share:.0%}).**"]
    if working:
        headlines = sorted(row["headline_s"] for row in working)
        parts.append(
            f"Medians: headline after {statistics.median(headlines):.1f} s "
            f"(longest {headlines[-1]:.1f} s), recording overhead {_median(working, 'overhead'):.2f}x, "
            f"attributed to lines {_median(working, 'attributed'):.1%}."
        )
    timed = [row for row in working if "ratio" in row]
    steady = [row["ratio"]["value"] for row in timed if row["steady"]]
    if steady:
        off = statistics.median(abs(ratio - 1) for ratio in steady)
        parts.append(
            f"Iteration time over the stopwatch's: median {statistics.median(steady):.3f}, median distance from one "
            f"{off:.1%}, over the {len(steady)} of {len(timed)} timed scripts whose null is within 3 %."
        )
    return "\n\n".join(parts)


def _line(script: CorpusScript, row: Row) -> list[str]:
    name = f"{script.repository}/{script.path}"
    if "not_run" in row:
        return [name, script.style, "not run", *[""] * 6, row["not_run"]]
    if not row["works"]:
        able = row.get("runs_by_hand", True)
        why = row["reason"] if able else f"fails without Skyline too: {row['own_error']}"
        return [name, script.style, "no" if able else "cannot run here", *[""] * 6, _cell(why)]
    ratio = f"{row['ratio']['value']:.3f} ({row['null']['value']:.3f})" if "ratio" in row else ""
    return [
        name,
        script.style,
        "yes",
        f"{row['headline_s']:.1f}",
        f"{row['by_hand_ms']:.2f}" if "by_hand_ms" in row else "",
        f"{row['skyline_ms']:.2f}",
        ratio or _cell(row.get("not_timed", "")),
        f"{row['overhead']:.2f}",
        f"{row['attributed']:.1%}",
        _cell(row["meaning"]),
    ]


def _median(rows: Iterable[Row], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]


def _notes(mended: str, threads: int) -> str:
    return (
        f"{threads} thread(s) per run. Headline: from the start of the capture until the script's own profile is "
        "analysed, without the curve over batch sizes. Skyline, ms: the iteration time of that profile; ratio: "
        "Skyline's bare timing over the stopwatch's in turns, in brackets a second stopwatch over the first, medians "
        "over processes started afresh three times: two runs of a script may differ, see fresh_processes.md. "
        "Overhead: recorded iterations over bare ones; never part of the iteration time. Attributed: share of the "
        f"iteration that is on lines of the script or of its own modules.\n\n{mended}"
    )
