"""The page of `mutation.py`: scores of samples with their intervals, survivors and equivalent mutants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from result_file import table

PACKAGES = ("rewrite", "simulate", "whatif")
GOAL = 0.8
NOTICED = ("killed", "timed out")
UNNOTICED = ("survived", "no test")


def score(outcomes: Sequence[str]) -> tuple[int, int, float]:
    """The number of noticed mutants, of judged mutants (neither equivalent nor deleted), and their ratio."""
    counts = Counter(outcomes)
    noticed = sum(counts[one] for one in NOTICED)
    judged = noticed + sum(counts[one] for one in UNNOTICED)
    return noticed, judged, noticed / judged if judged else 0.0


def interval(noticed: int, judged: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927)."""
    share, z = noticed / judged, 1.96
    middle = share + z**2 / (2 * judged)
    half = z * sqrt(share * (1 - share) / judged + (z / (2 * judged)) ** 2)
    return (middle - half) / (1 + z**2 / judged), (middle + half) / (1 + z**2 / judged)


def _scored(outcomes: Sequence[str]) -> str:
    noticed, judged, share = score(outcomes)
    low, high = interval(noticed, judged)
    return f"{noticed} of {judged}: {share:.0%} ({low:.0%} to {high:.0%})"


def page(samples: Mapping[str, Any]) -> str:
    rows: list[list[str]] = []
    for seed, sample in samples.items():
        for package in PACKAGES:
            own = [row for row in sample["mutants"] if row["package"] == package]
            scores = [_scored([row[key] for row in own]) for key in ("first", "now")]
            counts = Counter(row["now"] for row in own)
            others = ("timed out", "survived", "no test", "equivalent", "deleted")
            if not sample.get("again"):
                scores[1] = "not tried again"
            rows.append([seed, package, str(len(own)), *scores, *(str(counts[one]) for one in others)])
    head = ["seed", "package", "mutants", "noticed at first", "noticed now", "timed out", "survived"]
    body = table([*head, "no test", "equivalent", "code deleted"], rows)
    body += (
        "\n\nNoticed: killed or timed out, as a share of the mutants that are neither equivalent nor in "
        f"deleted code. The goal is {GOAL:.0%}. In brackets: the 95 % interval (Wilson) for all lines of the "
        "package.\n\nAt first: the result of a sample when it was drawn, before anyone had seen it. This is "
        "the held-out score. Now: the same mutants after tests for the survivors were added, or code without "
        "an effect was deleted.\n\nA sample has one mutant of each drawn line. Not drawn are mutants that "
        "change only the wording of a message (a text with a space in it), only the argument `strict` of "
        "`zip`, a docstring or an annotation. mutmut does not change decorated functions, such as properties "
        "and compiled loops. Equivalent: no caller can observe the change, for the reason given below."
    )
    for seed, sample in samples.items():
        for title, key in (("Survivors now", UNNOTICED), ("Equivalent", ("equivalent",))):
            left = [row for row in sample["mutants"] if row["now"] in key]
            body += f"\n\n## {title}, seed {seed}\n" if left else ""
            body += "".join(map(shown, left))
    return body


def shown(row: Mapping[str, str]) -> str:
    """A mutant as a diff, under its function."""
    signed = [f"- {line}" for line in row["before"].splitlines()]
    signed += [f"+ {line}" for line in row["after"].splitlines()]
    changes, about = "\n".join(signed), f": {row['reason']}" if row["reason"] else ""
    return f"\n`{row['file']}`, `{row['function']}`{about}\n\n```diff\n{changes}\n```\n"
