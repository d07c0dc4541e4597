"""``skyline watch --show FILE``: the history of a watched run as text."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from skyline.cli.streams import tell
from skyline.errors import ExitCode
from skyline.report.place import place
from skyline.units import format_bytes, format_ms, format_share
from skyline.watch.mllog import LoggedTraining


def show(path: Path) -> int:
    """Print the history."""
    from skyline.watch.diary import entries

    base = Path(os.path.realpath(os.curdir))
    header, *rest = entries(path)
    tell(f"{shlex.join(map(str, header.get('command', [])))}, started {header.get('started', '')}")
    several = len({entry.get("process") for entry in rest if entry["kind"] == "course"}) > 1
    for entry in rest:
        told = _told(entry, base, several=several)
        if told:
            tell(told)
    if not rest or rest[-1]["kind"] != "end":
        tell("no end recorded: the run continues, or the watcher was killed")
    return int(ExitCode.OK)


def _told(entry: dict[str, Any], base: Path, *, several: bool) -> str:
    at = f"{entry['at_s']:>8.1f} s  "
    rank = f"rank {entry['rank']}  " if several and "rank" in entry else ""
    match entry["kind"]:
        case "course":
            parts = [f"iteration {entry['iteration']}", format_ms(entry["iteration_ms"])]
            if entry["loss"] is not None:
                parts.append(f"loss {float(entry['loss']):.4g}")
            if entry["memory_bytes"] is not None:
                parts.append(format_bytes(entry["memory_bytes"]))
            parts.append(f"waits for data {format_share(entry['wait_share'])}")
            return f"{at}{rank}{'  '.join(parts)}"
        case "alert":
            where = f" ({place(entry['file'], entry['line'], base)})" if entry["file"] else ""
            first = f"{at}{rank}iteration {entry['iteration']}: {entry['rule']}: {entry['title']}{where}"
            return "\n".join([first, *(f"{'':>12}{one}" for one in entry["evidence"])])
        case "note":
            first = f"{at}{rank}iteration {entry['iteration']}: note: {entry['title']}"
            return "\n".join([first, *(f"{'':>12}{one}" for one in entry["evidence"])])
        case "over":
            return f"{at}{rank}iteration {entry['iteration']}: {entry['rule']}: over"
        case "logged":
            words = LoggedTraining.of_history(entry).words
            return f"{at}{rank}{words}" if words else ""
        case "report":
            return f"{at}{entry['message']}"
        case "end":
            code = "unknown" if entry["exit_code"] is None else entry["exit_code"]
            return f"{at}end: exit code {code}, alerts: {entry['alerts']}"
        case _:
            return ""
