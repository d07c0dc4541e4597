"""Checks that new blocks contain only their own statements, because a statement inside a block runs differently.

The header shows the kind of a block. The rules for its first and last statement are written here by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rewrite_checks import Corrupted
from source_reading import Reading

_HEADERS = (
    (re.compile(r"with\b.*autocast\(.*enabled=False\)"), "full precision"),
    (re.compile(r"with\b.*autocast"), "autocast"),
    (re.compile(r"with\b.*(no_grad|inference_mode)"), "evaluation"),
    (re.compile(r"for\b.*\.chunk\("), "parts"),
    (re.compile(r"for\b.*\.blocks"), "blocks"),
    (
        re.compile(
            r"class FusedJobs:|def (__init__|parameters|zero_grad|losses|of_one|model|clip_grad_norm_)\("
        ),
        "start",
    ),
    (
        re.compile(
            r"(for (job|one|name)\b|with .*fork_rng|if (len\(set|name in stacked|set_to_none)|elif one)"
        ),
        "start",
    ),
    (re.compile(r"def (run_|_)?loss_of\("), "one loss"),
    (re.compile(r"if\b.*%"), "report"),
    (re.compile(r"if\b.*get_rank\(\) == 0"), "first rank"),
    (re.compile(r"if\b.*(get_rank\(\) > 0|\"RANK\"|cuda\.is_available\(\)):"), "start"),
)

_CLASS = re.compile(r"class Kronecker\w+\(")
"""The classes that rewrites write in whole."""


def check_blocks(old: Reading, new: Reading, mapped: Mapping[int, int], names: Mapping[str, str]) -> None:
    """Raise Corrupted if a new block begins or ends with a statement that does not belong to it.

    ``mapped`` has the new offset of each statement by its old one. ``names`` are the names of the script's objects.
    """
    origins = {place: old.text[offset : old.statements[offset].end] for offset, place in mapped.items()}
    for place, block in new.statements.items():
        inside = [each for each in new.statements.values() if each.around and each.around[-1][0] == place]
        if place in origins or not inside:
            continue
        first = re.split(r"[\r\n]", new.text[place : block.end], maxsplit=1)[0]
        kind = next((kind for pattern, kind in _HEADERS if pattern.match(first)), "")
        if any(_CLASS.match(new.text, start) for start in (place, *(around[0] for around in block.around))):
            kind = "start"
        kept = [origins[each.start] for each in inside if each.start in origins]
        says = [new.text[each.start : each.end] for each in sorted(inside, key=lambda each: each.start)]
        if not _fits(kind, kept, says, names):
            raise Corrupted(f"the new block on line {new.line(place)} holds what is not for it: {first}")


def _fits(kind: str, kept: list[str], says: list[str], names: Mapping[str, str]) -> bool:
    """True if a block contains what its kind is for. ``kept`` are its old statements, ``says`` all its statements."""
    model = re.compile(rf"{re.escape(names['model'])}\s*\(")
    if kind == "autocast":
        return bool(model.search(says[0])) and re.search(rf"\b{names['loss']}\b", says[-1]) is not None
    if kind == "full precision":
        return len(says) == len(kept) == 1 and re.search(rf"\b{names['loss']}\b", says[0]) is not None
    if kind == "parts":
        return (
            bool(model.search(says[0])) and re.search(r"\.backward\(\)|whole_loss \+=", says[-1]) is not None
        )
    if kind == "one loss":
        return any(model.search(each) for each in kept) and says[-1].startswith(f"return {names['loss']}")
    if kind == "blocks":
        return len(says) == len(kept) == 1 and "self.blocks" in kept[0]
    if kind == "evaluation":
        return any("vx" in each for each in kept)
    if kind == "first rank":
        return bool(kept) and all("save" in each or "open" in each for each in kept)
    if kind == "start":
        return not kept
    return kind == "report" and bool(kept) and all("print" in each or "item" in each for each in kept)
