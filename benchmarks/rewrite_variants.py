"""Whether a rewrite ever corrupts a source: thousands of made-up scripts under every rewrite there is.

Each script (``source_variants.py``) goes through every registered rewrite alone and through several together. What
comes out must parse, keep every token outside the edits, keep every statement in its block, keep line ends and
encoding, come out the same in every order, be undone exactly, and not change when it is rewritten again; or the
rewrite is refused. No script is run, and nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from machine import Machine
from result_file import table, write
from rewrite_trial import Outcomes, Trial
from source_variants import Variant, variants

_SHARE = 100
"""Scripts that one task makes, from a seed of its own."""
_KINDS = ("rewritten", "nothing to do", "refused", "corrupted")
_REASONS_SHOWN = 6
_CHECKED = """Checked of each: the text parses; tokens and comments outside the edits are as they were; every statement
is in the block it was in; line ends and encoding are the file's; all orders give the same text; undoing gives the bytes
back; a second time changes nothing."""


def tried(first_seed: int, count: int) -> Outcomes:
    """The outcomes of so many scripts."""
    outcomes = Outcomes()
    chooser = Random(first_seed)

    @seed(first_seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(variants())
    def try_all(variant: Variant) -> None:
        if outcomes.variants < count:
            Trial(variant, outcomes).run(chooser)

    try_all()
    return outcomes


def main() -> int:
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--variants", type=int, default=10_000)
    command.add_argument("--processes", type=int, default=2)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--minutes", type=float, default=60.0, help="begin nothing more after so long")
    options = command.parse_args()
    shares = [min(_SHARE, options.variants - start) for start in range(0, options.variants, _SHARE)]
    outcomes = Outcomes()
    deadline = time.monotonic() + 60 * options.minutes
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [pool.submit(tried, options.seed + number, share) for number, share in enumerate(shares)]
        for job in jobs:
            if time.monotonic() > deadline:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            outcomes.add(job.result())
            print(
                f"{outcomes.variants} scripts, {len(outcomes.corrupted)} corrupted",
                file=sys.stderr,
                flush=True,
            )
    print(
        write(
            "rewrite_variants",
            "Rewrites of made-up scripts",
            Machine.here(),
            _page(outcomes),
            _figures(outcomes),
        )
    )
    for corrupted in outcomes.corrupted[:5]:
        print(corrupted, file=sys.stderr)
    return 1 if outcomes.corrupted else 0


def _page(outcomes: Outcomes) -> str:
    rows = [
        [f"`{name}`", *(str(counts[kind]) for kind in _KINDS)]
        for name, counts in sorted(outcomes.by_rewrite.items())
    ]
    together = outcomes.together
    lines = [
        f"{outcomes.variants} scripts, each under every rewrite; `amp` twice, for bfloat16 and float16.",
        (
            f"{sum(together.values())} times two to four of them together: {together['rewritten']} rewritten,"
            f" {together['refused in part']} refused in part."
        ),
        "",
        f"Corrupted: {len(outcomes.corrupted)}.",
        "",
        table(["rewrite", *_KINDS], rows),
        "",
        _CHECKED,
    ]
    if outcomes.reasons:
        lines += ["", "## Why it was refused", ""]
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
        "corrupted": len(outcomes.corrupted),
    }


if __name__ == "__main__":
    sys.exit(main())
