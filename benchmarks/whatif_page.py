"""The page about what-ifs on public scripts: which are found, rewritten or refused, and which train equally."""

from __future__ import annotations

from collections.abc import Iterable

from result_file import table

Row = dict[str, object]
Found = dict[str, list[Row]]
MARKS = {"trains": "✓", "broken": "✗", "refused": "r", "written": "w"}


def page(found: Found, names: Iterable[str], gpu: str, backwards: int) -> str:
    """A line per what-if, then the results by script, then the reasons of refusals."""
    names = tuple(names)
    by_name = {
        name: [(script, row) for script, rows in found.items() for row in rows if row["name"] == name]
        for name in names
    }
    head = [
        "what-if",
        "found on",
        "for",
        "predicted, from",
        "rewritten",
        "trains the same",
        "does not",
        "refused",
    ]
    lines = [_line(name, by_name[name]) for name in names]
    numbers = {script: str(number) for number, script in enumerate(found, start=1)}
    marks = [
        [
            f"`{name}`",
            *(_mark(next((row for script, row in by_name[name] if script == one), None)) for one in found),
        ]
        for name in names
    ]
    listed = ", ".join(f"{number} {script}" for script, number in numbers.items())
    written = sum("lines" in row for rows in found.values() for row in rows)
    ran = sum("trains" in row for rows in found.values() for row in rows)
    trained = sum(bool(row.get("trains")) for rows in found.values() for row in rows)
    return (
        f"{table(head, lines)}\n\n"
        f"{len(found)} scripts; {written} rewritten copies; {ran} of them were run, of which {trained} train "
        "as expected. A what-if is counted once per script: on this machine (`CPU`) if it applies there, "
        f"otherwise for an {gpu} by shape tracing (`GPU`). `model-only` predictions were never compared with "
        f"a measurement. `trains the same` compares the first {backwards} losses of the rewritten and the "
        "unchanged script, run on this machine with the same seeds. They must agree within 0.1 % (exact) or "
        "5 % (numerics), or be finite (convergence). "
        f"{_in_double(found)}"
        "Dropout is off in both, because some changes draw its random numbers in another order. Changes for "
        "GPUs also run here. This shows that the file still runs and trains, but does not test the GPU's "
        "path.\n\n"
        "## Script by script\n\n✓ rewritten and trains the same · ✗ rewritten and does not · w rewritten and not "
        "run · r refused\n\n"
        f"{table(['what-if', *numbers.values()], marks)}\n\n{listed}\n\n"
        f"## Reasons of refusals\n\n{table(['what-if', 'script', 'reason'], _reasons(by_name))}\n"
    )


def _line(name: str, mine: list[tuple[str, Row]]) -> list[str]:
    where = {"measured": "CPU", "predicted": "GPU"}
    places = [where[str(row["where"])] for _, row in mine]
    written = [(script, row) for script, row in mine if "lines" in row]
    run = [(script, row) for script, row in written if "trains" in row]
    broken = [f"{script} ({_distance(row)})" for script, row in run if not row["trains"]]
    return [
        f"`{name}`",
        str(len(mine)),
        ", ".join(f"{one} {places.count(one)}" for one in sorted(set(places))),
        ", ".join(sorted({str(row["provenance"]) for _, row in mine})),
        str(len(written)),
        f"{len(run) - len(broken)} of {len(run)}",
        ", ".join(broken),
        str(sum("refused" in row for _, row in mine)),
    ]


def _in_double(found: Found) -> str:
    """The changes that were tried again in double precision, and the difference of their losses there."""
    tried = [
        f"{row['name']} of {script} ({float(str(row['furthest'])):.2%} away, in float64 "
        f"{float(str(row['furthest_double'])):.0e})"
        for script, rows in found.items()
        for row in rows
        if "furthest_double" in row
    ]
    if not tried:
        return ""
    return (
        "Exact changes with a larger difference were run again in float64 on both sides. They count as the "
        "same if their losses agree there within 1e-6, because then they differ only by rounding. These are "
        f"{', '.join(tried)}. "
    )


def _distance(row: Row) -> str:
    """The difference of the losses from the unchanged script."""
    furthest = row.get("furthest")
    return f"{furthest:.2%} away" if isinstance(furthest, float) else str(row.get("why", "not finite"))


def _mark(row: Row | None) -> str:
    if row is None:
        return ""
    if "refused" in row:
        return MARKS["refused"]
    if "trains" not in row:
        return MARKS["written"]
    return MARKS["trains"] if row.get("trains") else MARKS["broken"]


def _reasons(by_name: dict[str, list[tuple[str, Row]]]) -> list[list[str]]:
    """One line per what-if and reason, with the scripts."""
    lines: list[list[str]] = []
    for name, mine in by_name.items():
        reasons: dict[str, list[str]] = {}
        for script, row in mine:
            if "refused" in row:
                reasons.setdefault(str(row["refused"]), []).append(script)
        lines += [
            [f"`{name}`", ", ".join(scripts), reason.replace("|", "\\|").replace("\n", " ")]
            for reason, scripts in reasons.items()
        ]
    return lines
