"""Measures the processor time of a plan in the server, of the timeline of a row, and of its file.

    python benchmarks/plan_request.py [--rounds 5]

Plans described models on clusters of several sizes, as for ``skyline/plan``. The search alone is the baseline of the
whole answer with its reasons and its JSON. Questions take turns on one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import TypeVar

import msgspec
from machine import Machine
from result_file import table, write

from skyline.plan.cluster import cluster_named
from skyline.plan.search import Request, search
from skyline.plan.transformer import transformer_named
from skyline.predict.registry import predictor_for
from skyline.report.plan import Plan, Terms, plan
from skyline.report.timelines import sides_of_simulation, window

QUESTIONS = (
    ("gpt2", "p4d.24xlarge", "8"),
    ("llama3-8b", "p5.48xlarge", "8..64"),
    ("llama3-70b", "dgx-h100", "256"),
)
ROWS = 20
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Answer:
    """Processor time of one question, in s."""

    model: str
    cluster: str
    gpus: str
    strategies: int
    size_bytes: int
    search_s: float
    plan_s: float
    timeline_s: float
    perfetto_s: float


def timed(work: Callable[[], Made]) -> tuple[float, Made]:
    begun = time.process_time()
    made = work()
    return time.process_time() - begun, made


def answer(model_name: str, cluster_name: str, gpus: str) -> Answer:
    cluster, model = cluster_named(cluster_name), transformer_named(model_name)
    predictor, sizes = predictor_for(cluster.gpu), cluster.sizes(gpus)
    search_s, found = timed(lambda: search(model, sizes, predictor, Request()))

    def whole() -> tuple[Plan, bytes]:
        made = plan(model, cluster, sizes, predictor, Request(), Terms(), ROWS)
        return made, msgspec.json.encode(made.report)

    plan_s, (made, encoded) = timed(whole)
    timeline_s, _ = timed(lambda: msgspec.json.encode(window(sides_of_simulation(made.timeline(1), ""))))
    perfetto_s, _ = timed(lambda: made.perfetto(1))
    return Answer(
        model_name,
        cluster_name,
        gpus,
        found.considered,
        len(encoded),
        search_s,
        plan_s,
        timeline_s,
        perfetto_s,
    )


def spread(values: list[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> int:
    """Answer each question in turns, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="answers to each question (default: 5)")
    options = parser.parse_args()
    machine = Machine.here()
    answer(*QUESTIONS[0])  # predictors and tables are loaded once a server
    rounds = [[answer(*question) for question in QUESTIONS] for _ in range(options.rounds)]
    rows: list[tuple[str, ...]] = []
    for same in zip(*rounds, strict=True):
        first = same[0]
        rows.append(
            (
                f"{first.model} on {first.cluster}, {first.gpus} GPUs",
                f"{first.strategies:,}",
                spread([one.search_s for one in same]),
                spread([one.plan_s for one in same]),
                spread([one.timeline_s for one in same]),
                spread([one.perfetto_s for one in same]),
                f"{first.size_bytes / 1e3:.0f} kB",
            )
        )
    head = (
        "question",
        "strategies",
        "search alone, s",
        "plan, s",
        "timeline, s",
        "Perfetto file, s",
        "answer",
    )
    body = (
        f"Processor time of one thread: medians of {options.rounds} answers, with the minimum and the "
        f"maximum. A plan has {ROWS} rows. Timelines and files are those of the first row. A repeated "
        f"question is answered from memory.\n\n{table(head, rows)}"
    )
    figures = [[asdict(one) for one in same] for same in zip(*rounds, strict=True)]
    print(write("plan_request", "Plans in the language server", machine, body, figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
