"""Workers that exchange gradients over links of 1 to 25 Gbit/s: whole modules, slices by priority, DDP's buckets.

    python benchmarks/worker_exchange.py

As in P3 (Jayarajan and others, MLSys 2019) four workers have one GPU each, and a parameter server on the same
machine. Its baseline, MXNet, sends whole layers in the order in which they are ready, and the next forward pass waits
for each layer by itself. Steps are predicted from shapes for a Tesla P4, a GPU of that generation: nothing runs on a
GPU.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

from skyline.analysis.estimate import answer
from skyline.capture.request import CaptureRequest
from skyline.graph.replication import stitch
from skyline.predict.gpu_profile import gpu_profile
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.p3 import sliced
from skyline.whatif.cost.worker_exchange import REACHED, Workers
from skyline.whatif.question import Choice
from skyline.whatif.subject import Subject

_HERE = Path(__file__).parent
_GPU, _WORKERS, _BATCH = "P4", 4, 32
_GBIT_S = (1, 2, 4, 6, 8, 10, 15, 20, 25)
_ITERATIONS = 12
MODELS = {
    "ResNet-50": (_HERE / "ground_truth_models" / "resnet50.py", "up to 1.25"),
    "VGG-19": (_HERE / "exchange_models" / "vgg19.py", "up to 1.66"),
}
_NOTE = f"""\
Batch {_BATCH} for each of {_WORKERS} workers, float32, {_GPU}. `by priority` and `buckets` are speeds over `whole
modules`.

The paper's figures are those of its abstract, on its own cluster. The bandwidth of the largest gain scales with the
speed of the GPU and with the share of the link that is reached ({REACHED.value:.0%}). Servers add up and update in no
time here; the paper's baseline also loses time there, which a model of links alone does not have."""


@dataclass(frozen=True, slots=True)
class Point:
    """Steps in ms at one bandwidth."""

    model: str
    gbit_s: float
    alone_ms: float
    whole_ms: float
    sliced_ms: float
    buckets_ms: float


def points(model: str, subject: Subject) -> list[Point]:
    """The curve of one model."""
    alone_ms = subject.step_ms(subject.operators)
    graph = stitch(subject.operators, _ITERATIONS)
    found: list[Point] = []
    for rate in _GBIT_S:
        workers = Workers(_WORKERS, rate)
        whole = sliced(subject, graph, workers, REACHED.value, slice_bytes=inf, by_priority=False)
        by_priority = sliced(subject, graph, workers, REACHED.value)
        ddp = answer(subject, [Choice("data_parallel", f"{_WORKERS}@{rate}")])
        found.append(
            Point(
                model,
                rate,
                alone_ms,
                subject.step_ms(whole),
                subject.step_ms(by_priority),
                alone_ms * _WORKERS / ddp.speedup,
            )
        )
    return found


def page(found: list[Point]) -> str:
    """A table for each model, and its largest gain compared with the paper's."""
    parts: list[str] = []
    for model, (_, published) in MODELS.items():
        own = [one for one in found if one.model == model]
        if not own:
            continue
        best = max(own, key=lambda one: one.whole_ms / one.sliced_ms)
        rows = [
            [
                f"{one.gbit_s:g}",
                f"{one.alone_ms:.0f}",
                f"{one.whole_ms:.0f}",
                f"{one.sliced_ms:.0f}",
                f"{one.whole_ms / one.sliced_ms:.2f}",
                f"{one.whole_ms / one.buckets_ms:.2f}",
            ]
            for one in own
        ]
        head = [
            "Gbit/s",
            "one worker, ms",
            "whole modules, ms",
            "slices by priority, ms",
            "by priority",
            "buckets",
        ]
        parts.append(
            f"## {model}\n\n{table(head, rows)}\n\nLargest gain by priority: {best.whole_ms / best.sliced_ms:.2f} at "
            f"{best.gbit_s:g} Gbit/s; the paper: {published}."
        )
    return "\n\n".join([_NOTE, *parts])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    found: list[Point] = []
    for model in options.only:
        script, _ = MODELS[model]
        request = CaptureRequest(script, arguments=("--batch-size", str(_BATCH)), gpu=_GPU, batch_points=0)
        found += points(model, baseline(gpu_profile(request, progress=lambda _: None)))
    text = page(found)
    write(
        "worker_exchange", "Workers that exchange gradients", machine, text,
        [asdict(one) for one in found], results=options.results,
    )  # fmt: skip
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
