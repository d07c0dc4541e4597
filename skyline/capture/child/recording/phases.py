"""Decides the phase of the work that no call of PyTorch's own names: losses, hand-written fetching, evaluation."""

from __future__ import annotations

import linecache
import re

_FETCHES = re.compile(r"batch|data|sample|loader|fetch|\.to\(|\.cuda\(", re.IGNORECASE)
_ASSIGNS_OR_LOOPS = re.compile(r"^\s*(for\b|[\w\s,\[\]().*]+=[^=])")


def settle_phases(records, lines):
    """Records (dictionaries with scratch keys ``grad`` and ``root_call``) with their final phases.

    - A module call none of whose operators got a backward pass is evaluation, not forward.
    - An operator outside every module whose backward ran (a loss, an assembled product) is forward, and so is
      the interpreter time on its line.
    - A statement of the training loop that assigns or iterates something called batch, data or sample, and
      takes part in no other phase, is data loading written by hand.
    """
    trained = {record["root_call"] for record in records if record["grad"]}
    for record in records:
        if record["phase"] == "forward" and record["root_call"] not in trained:
            record["phase"] = "other"
        elif record["phase"] == "other" and record["grad"]:
            record["phase"] = "forward"
    forward_lines = {record["line"] for record in records if record["phase"] == "forward" and record["grad"]}
    for record in records:
        if record["phase"] == "other" and record["kind"] == "python" and record["line"] in forward_lines:
            record["phase"] = "forward"
    busy = {record["call_line"] for record in records if record["phase"] not in ("other", "data")}
    fetching = {
        index
        for index in {record["call_line"] for record in records}
        if index >= 0 and index not in busy and _is_fetching(lines[index])
    }
    for record in records:
        if record["phase"] == "other" and record["call_line"] in fetching:
            record["phase"] = "data"
    return records


def _is_fetching(line):
    text = linecache.getline(line["file"], line["line"])
    return bool(_ASSIGNS_OR_LOOPS.match(text) and _FETCHES.search(text))
