"""Checks that no rewrite corrupts a source, with all rewrites on thousands of generated scripts.

Every registered rewrite is tried on each script (``source_variants.py``), alone and several together. The result is
checked (``rewrite_checks.py``, ``rewrite_targets.py``), or the rewrite is refused. Scripts have numbers, and a number
always gives the same script. No script is run, and nothing is timed.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

from machine import Machine
from result_file import RESULTS, table, write
from rewrite_trial import Outcomes, Trial
from source_variants import variant

_SHARE = 50
"""Number of scripts per task."""
_KINDS = ("rewritten", "nothing to do", "refused", "corrupted")
_REASONS_SHOWN = 6
_NAME = "rewrite_variants"
_CHECKED = """Checks of each rewritten script. They use Python's own tokenizer, parser, compiler and symbol
tables, not Skyline's reading of sources.

- The text compiles.
- Tokens outside the edits are unchanged. No edit cuts a token in two.
- Each token that is added or removed is a target of that rewrite (`rewrite_targets.py`).
- Each statement stays in its block. A statement without an edit keeps its meaning.
- A new block begins and ends with the code that it is for (`rewrite_blocks.py`).
- Each comment stays next to its code.
- Each name is looked up in the same scope as before.
- Each name that is read is bound, and bound before its use. No new name replaces an existing one.
- Line ends, the end of the file, the encoding and the byte order mark are unchanged.
- No edit adds blanks at the end of a line.
- Undoing the change restores the bytes of the file.
- A change that only added code is found in the new text. Removing it restores the old text.
- The same rewrite changes nothing when it runs again.
- Several changes at once give the same text in every order, and also if each is saved before the next.
- A refused change writes nothing. A single change is never refused because of its own edits."""


def tried(first: int, count: int) -> Outcomes:
    """The outcomes of ``count`` scripts, from number ``first`` on."""
    outcomes = Outcomes()
    # So many trees are alive at once that the collector would traverse them again and again.
    gc.disable()
    gc.freeze()
    try:
        for number in range(first, first + count):
            Trial(variant(number), outcomes).run(Random(number))
            gc.collect()
    finally:
        gc.enable()
    return outcomes


def main() -> int:
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--variants", type=int, default=10_000)
    command.add_argument("--processes", type=int, default=2)
    command.add_argument("--first", type=int, default=0, help="number of the first script")
    command.add_argument("--minutes", type=float, default=60.0, help="start no scripts after this time")
    command.add_argument(
        "--resume", action="store_true", help="continue after the scripts of the existing result"
    )
    options = command.parse_args()
    outcomes = _kept() if options.resume else Outcomes()
    first = options.first + outcomes.variants
    shares = [
        (number, min(_SHARE, options.first + options.variants - number))
        for number in range(first, options.first + options.variants, _SHARE)
    ]
    machine, deadline = Machine.here(), time.monotonic() + 60 * options.minutes
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [pool.submit(tried, *share) for share in shares]
        for job in jobs:
            if time.monotonic() > deadline:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            outcomes.add(job.result())
            # Store the results so far, in case the run is stopped.
            _write(machine, outcomes)
            said = f"{outcomes.variants} scripts, {len(outcomes.corrupted)} corrupted"
            print(said, file=sys.stderr, flush=True)
    print(_write(machine, outcomes))
    for corrupted in outcomes.corrupted[:5]:
        print(corrupted, file=sys.stderr)
    return 1 if outcomes.corrupted else 0


def _write(machine: Machine, outcomes: Outcomes) -> str:
    return write(_NAME, "Rewrites of made-up scripts", machine, _page(outcomes), _figures(outcomes))


def _kept() -> Outcomes:
    """The outcomes of the existing result file. Empty if there is none."""
    path = RESULTS / f"{_NAME}.json"
    if not path.exists():
        return Outcomes()
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return Outcomes(
        figures["variants"],
        {name: Counter(counts) for name, counts in figures["rewrites"].items()},
        {name: Counter(counts) for name, counts in figures["reasons"].items()},
        Counter(figures["together"]),
        list(figures["corrupted"]),
    )


def _page(outcomes: Outcomes) -> str:
    rows = [
        [
            f"`{name}`",
            *(str(counts[kind]) for kind in _KINDS),
            f"{counts['rewritten'] / outcomes.variants:.0%}",
        ]
        for name, counts in sorted(outcomes.by_rewrite.items())
    ]
    together = outcomes.together
    lines = [
        f"{outcomes.variants} scripts. Each gets every rewrite, with two values if the rewrite has several.",
        (
            f"{sum(together.values())} combinations of rewrites, two to four each: {together['rewritten']}"
            f" rewritten, {together['refused in part']} refused in part."
        ),
        "",
        f"Corrupted: {len(outcomes.corrupted)}.",
        "",
        table(["rewrite", *_KINDS, "share rewritten"], rows),
        "",
        _CHECKED,
    ]
    if outcomes.reasons:
        lines += ["", "## Reasons of refusals", ""]
        rows = [
            [f"`{name}`", str(count), reason]
            for name, reasons in sorted(outcomes.reasons.items())
            for reason, count in reasons.most_common(_REASONS_SHOWN)
        ]
        lines.append(table(["rewrite", "scripts", "reason"], rows))
    return "\n".join(lines)


def _figures(outcomes: Outcomes) -> object:
    return {
        "variants": outcomes.variants,
        "rewrites": {name: dict(counts) for name, counts in sorted(outcomes.by_rewrite.items())},
        "reasons": {name: dict(counts.most_common()) for name, counts in sorted(outcomes.reasons.items())},
        "together": dict(outcomes.together),
        "corrupted": outcomes.corrupted,
    }


if __name__ == "__main__":
    sys.exit(main())
