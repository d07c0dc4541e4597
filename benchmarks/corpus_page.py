"""The result page of the corpus: a row for each script, and the totals."""

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
    "batch size",
    "measured",
    "one iteration, or why not",
)
_BLANK = 7
"""Number of columns between verdict and date, which are empty for a script that was not profiled."""


def page(
    corpus: Sequence[CorpusScript],
    rows: Mapping[str, Row],
    machines: Mapping[str, str],
    mended: str,
    threads: int,
) -> str:
    """The page in Markdown, without scripts that have no row. ``machines``: a sentence for each run of the rows."""
    done = [(script, rows[script.name]) for script in corpus if script.name in rows]
    lines = [_line(script, row) for script, row in done]
    notebooks = [row for script, row in done if script.is_notebook]
    parts = [summary([row for _, row in done])]
    if notebooks:
        parts.append(f"Of these, notebooks: {_counts(notebooks)}")
    if len(machines) > 1:
        parts.append("\n".join(f"- {_run(rows, run, words)}" for run, words in machines.items()))
    said = [
        f"- {script.name}: {row['batch']['rewritten'] or 'not found'}: {_cell(row['batch']['said'])}"
        for script, row in done
        if row.get("batch", {}).get("said")
    ]
    if said:
        parts.append("Batch sizes that are not found, or not changed correctly:\n\n" + "\n".join(said))
    return "\n\n".join((*parts, table(_HEAD, lines), _notes(mended, threads)))


def _run(rows: Mapping[str, Row], run: str, machine: str) -> str:
    own = [row for row in rows.values() if row.get("run") == run]
    return f"{machine}: {_counts(own)}"


def _able(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "works" in row and (row["works"] or row.get("runs_by_hand", True))]


def _counts(rows: Sequence[Row]) -> str:
    able = _able(rows)
    unable = sum("works" in row for row in rows) - len(able)
    not_run = sum("not_run" in row for row in rows)
    working = sum(bool(row["works"]) for row in able)
    share = working / len(able) if able else 0.0
    counted = f"{len(rows)} listed, {not_run} not run, {unable} fail here without Skyline too."
    return f"{counted} **{working} of the other {len(able)} work unmodified ({share:.0%}).**"


def summary(rows: Sequence[Row]) -> str:
    """The totals: how many of the scripts that can run here work, the medians, and the batch sizes."""
    parts = [_counts(rows)]
    everything = [row for row in _able(rows) if row["works"]]
    working = [row for row in everything if "headline_s" in row]
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
    if batches := [row["batch"] for row in everything if row.get("batch", {}).get("size")]:
        found = [batch for batch in batches if batch["found"]]
        kinds = {
            kind: sum(batch["rewritten"] == kind for batch in found) for kind in ("right", "refused", "wrong")
        }
        parts.append(
            f"Batch size, of the {len(batches)} scripts that work and have one by a person's reading of the "
            f"source: **found in {len(found)} ({len(found) / len(batches):.0%})**; of these the change is "
            f"right in {kinds['right']}, refused in {kinds['refused']}, wrong in {kinds['wrong']}."
        )
    return "\n\n".join(parts)


def _line(script: CorpusScript, row: Row) -> list[str]:
    name = f"{script.repository}/{script.path}"
    if "not_run" in row:
        return [name, script.style, "not run", *[""] * _BLANK, _date(row), row["not_run"]]
    if not row["works"]:
        able = row.get("runs_by_hand", True)
        why = row["reason"] if able else f"fails without Skyline too: {row['own_error']}"
        return [
            name,
            script.style,
            "no" if able else "cannot run here",
            *[""] * _BLANK,
            _date(row),
            _cell(why),
        ]
    ratio = f"{row['ratio']['value']:.3f} ({row['null']['value']:.3f})" if "ratio" in row else ""
    return [
        name,
        script.style,
        "yes",
        f"{row['headline_s']:.1f}" if "headline_s" in row else "",
        f"{row['by_hand_ms']:.2f}" if "by_hand_ms" in row else "",
        f"{row['skyline_ms']:.2f}" if "skyline_ms" in row else "",
        ratio or _cell(row.get("not_timed", "")),
        f"{row['overhead']:.2f}" if "overhead" in row else "",
        f"{row['attributed']:.1%}",
        _batch(row.get("batch", {})),
        _date(row),
        _cell(row["meaning"]),
    ]


def _batch(batch: Row) -> str:
    if not batch:
        return ""
    if not batch["size"]:
        return "has none" if batch["seen"] is None else f"has none; {batch['seen']} shown"
    if not batch["found"]:
        shown = f"; {batch['seen']} shown" if batch.get("seen") not in (None, batch["size"]) else ""
        return f"{batch['size']}: not found{shown}"
    place = f" ({batch['place']})" if batch["place"] else ""
    return f"{batch['size']}{place}: {batch['rewritten']}"


def _date(row: Row) -> str:
    return str(row.get("run", ""))[:10]


def _median(rows: Iterable[Row], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]


def _notes(mended: str, threads: int) -> str:
    return (
        f"{threads} thread(s) per run.\n\n"
        "- Headline: the time from the start of the capture until the script's own profile is analysed, "
        "without the curve over batch sizes.\n"
        "- Skyline, ms: the iteration time of that profile.\n"
        "- Ratio: Skyline's bare timing over the stopwatch's, measured in turns. In brackets: a second "
        "stopwatch over the first. Both are medians over three starts of all processes, because two runs of "
        "a script may differ (fresh_processes.md).\n"
        "- Overhead: recorded iterations over bare ones. It is never part of the iteration time.\n"
        "- Attributed: the share of the iteration on lines of the script or of its own modules.\n"
        "- Batch size: the number that a person read in source, settings file and command line before the "
        "script was tried, the place where Skyline found it, and the result of changing it in memory. A "
        "change is right if one number differs and a second run shows the new size.\n"
        "- A script of several ranks has the row of rank 0. The other ranks run on the same machine.\n"
        "- Rows without times were measured while other programs ran. Rows without a batch size are of "
        "scripts whose batch size nobody read.\n\n"
        f"{mended}"
    )
