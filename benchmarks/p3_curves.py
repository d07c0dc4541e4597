"""P3's setting as curves: ResNet-50, VGG-19 and a stand-in for Sockeye on four machines over 1 to 25 Gbit/s.

    python benchmarks/p3_curves.py --interpreter ENV/bin/python

``--interpreter`` names a Python with torchvision. Each machine has one GPU and a parameter server. The baseline sends
whole layers in the order in which they are ready, as MXNet does. P3 is the what-if ``p3``. Both are simulated twice:
with servers as fast as the link, as the what-if assumes, and with servers that need time for memory accesses. Steps are
predicted from shapes: nothing runs on a GPU, and no constant is fitted to the paper. Draws
``docs/images/p3_curves.svg``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from math import inf, nan
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write
from served_exchange import Server, served

from skyline.analysis.estimate import answer
from skyline.capture.request import CaptureRequest
from skyline.graph.replication import stitch
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.predict.gpu_profile import gpu_profile
from skyline.trace.record import Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.p3 import sliced
from skyline.whatif.cost.worker_exchange import REACHED, Workers, gradients_of
from skyline.whatif.question import Choice
from skyline.whatif.subject import Subject

_HERE = Path(__file__).parent
_PICTURES = _HERE.parent / "docs" / "images"
_VISION, _TRANSLATION = (
    _HERE / "exchange_models" / name for name in ("torchvision_model.py", "recurrent_translation.py")
)
_GPU, _MACHINES, _BATCH, _ITERATIONS = "P4", 4, 32, 12
_GBIT_S = tuple(range(1, 26))
_SLICE_BYTES, _MOST_SLICES = 200_000.0, 400
"""Size of a slice, and the maximum number of slices of an iteration, as in the what-if."""
_SERVER = Server(10e3)
"""An assumption: a server process reads and writes 10 GB/s of memory, as the what-if ``topk`` assumes for a core."""


@dataclass(frozen=True, slots=True)
class Model:
    """A training, and the gain of P3 that the paper states, in per cent."""

    script: Path
    arguments: tuple[str, ...]
    unit: str
    published: int


MODELS = {
    "ResNet-50": Model(_VISION, ("--model", "resnet50"), "images", 25),
    "VGG-19": Model(_VISION, ("--model", "vgg19"), "images", 66),
    "Sockeye (stand-in)": Model(_TRANSLATION, (), "sentences", 38),
    "Sockeye (stand-in, fused encoder)": Model(_TRANSLATION, ("--fused",), "sentences", 38),
}


@dataclass(frozen=True, slots=True)
class Point:
    """Samples per second of all machines at one bandwidth. ``low`` and ``high`` are the range of the what-if ``p3``."""

    model: str
    gbit_s: int
    unbound: float
    layers: float
    p3: float
    low: float
    high: float
    buckets: float
    served_layers: float
    served_p3: float
    forward_share: float
    """The forward pass as a share of the step without an exchange."""


def points(model: str, subject: Subject) -> list[Point]:
    """The curves of one model."""
    alone_ms = subject.step_ms(subject.operators)
    forward = select(subject.operators, kind=TaskKind.KERNEL, phase=Phase.FORWARD)
    forward_ms = subject.operators.durations[forward].sum() / 1e3 / len(subject.operators.iterations)
    graph = stitch(subject.operators, _ITERATIONS)
    sizes = [one.size_bytes for one in gradients_of(subject, subject.operators, 0)]
    slice_bytes = max(_SLICE_BYTES, sum(sizes) / _MOST_SLICES)

    def rate(changed_ms: float) -> float:
        return _MACHINES * _BATCH / changed_ms * 1e3

    found: list[Point] = []
    for gbit_s in _GBIT_S:
        workers = Workers(_MACHINES, gbit_s)
        layers = sliced(subject, graph, workers, REACHED.value, slice_bytes=inf, by_priority=False)
        p3, buckets = (
            answer(subject, [Choice(name, f"{_MACHINES}@{gbit_s}")]).throughput for name in ("p3", "data_parallel")
        )  # fmt: skip
        assert p3 is not None
        assert buckets is not None
        slow = served(subject, graph, workers, REACHED.value, _SERVER)
        slow_p3 = served(subject, graph, workers, REACHED.value, _SERVER, slice_bytes)
        found.append(
            Point(
                model,
                gbit_s,
                rate(alone_ms),
                rate(subject.step_ms(layers)),
                p3.value,
                p3.low,
                p3.high,
                buckets.value,
                rate(subject.step_ms(slow)),
                rate(subject.step_ms(slow_p3)),
                forward_ms / alone_ms,
            )
        )
    return found


def best(gains: dict[int, float]) -> str:
    """The largest gain and its bandwidth."""
    gbit_s = max(gains, key=gains.__getitem__)
    return f"+{gains[gbit_s] - 1:.0%} at {gbit_s} Gbit/s"


def gains(own: list[Point], *, with_servers: bool) -> dict[int, float]:
    """The gain of P3 over whole layers, by bandwidth."""
    if with_servers:
        return {one.gbit_s: one.served_p3 / one.served_layers for one in own}
    return {one.gbit_s: one.p3 / one.layers for one in own}


def page(found: list[Point]) -> str:
    """The gains next to those of the paper, and a table for each model."""
    by_model = {name: [one for one in found if one.model == name] for name in MODELS}
    rows = [
        [
            name,
            f"up to +{MODELS[name].published} %",
            best(gains(own, with_servers=False)),
            best(gains(own, with_servers=True)),
            f"{own[0].unbound:.0f} {MODELS[name].unit}/s",
        ]
        for name, own in by_model.items()
        if own
    ]
    head = ["model", "paper", "servers as fast as the link", "servers at 10 GB/s", "no exchange"]
    share = max((one.forward_share for one in found if one.model == "VGG-19"), default=nan)
    note = _NOTE.format(
        gains=table(head, rows),
        machines=_MACHINES,
        gpu=_GPU,
        batch=_BATCH,
        reached=REACHED.value,
        share=share,
        abstract=_ABSTRACT,
    )
    parts = [note.strip()]
    head = [
        "Gbit/s",
        "whole layers",
        "`p3`",
        "range",
        "gain",
        "`data_parallel`",
        "layers, servers",
        "P3, servers",
        "gain, servers",
    ]
    for name, own in by_model.items():
        if own:
            lines = [
                [
                    f"{one.gbit_s}",
                    f"{one.layers:.0f}",
                    f"{one.p3:.0f}",
                    f"{one.low:.0f} to {one.high:.0f}",
                    f"{one.p3 / one.layers - 1:+.0%}",
                    f"{one.buckets:.0f}",
                    f"{one.served_layers:.0f}",
                    f"{one.served_p3:.0f}",
                    f"{one.served_p3 / one.served_layers - 1:+.0%}",
                ]
                for one in own
            ]
            parts.append(f"## {name}\n\n{MODELS[name].unit.capitalize()} a second.\n\n{table(head, lines)}")
    return "\n\n".join(parts)


_ABSTRACT = (
    "https://proceedings.mlsys.org/paper_files/paper/2019/hash/3ed923f9f88108cb066c6568d3df2666-Abstract.html"
)
_NOTE = """\
{gains}

![Samples a second over Gbit/s](../../docs/images/p3_curves.svg)

`gain` is the speed of P3 over that of whole layers, at the bandwidth where it is largest. All speeds are simulated:
{machines} machines with a {gpu} each, batch {batch}, float32, {reached:.0%} of a link reached. No constant is
fitted to the paper. The range is that of the what-if.

## The paper's figures

- The gains are those of [the abstract]({abstract}), which says "as much as". The paper's text was not
  available. The bandwidths of its gains and its images per second are therefore not on this page. The number
  of machines and their card, a Quadro P4000, could not be checked.
- Batch {batch}, one GPU for each machine, `dist_device_sync` and the options of Sockeye are those of `run_exp.sh`
  in [the authors' code](https://github.com/anandj91/p3).
- A Quadro P4000 (5.3 TFLOP/s in float32, 243 GB/s) is not in the list of GPUs. The Tesla P4 (5.5 TFLOP/s, 192 GB/s)
  is the nearest of its generation.
- ResNet-50 and VGG-19 are torchvision's. Sockeye is a stand-in in PyTorch with the authors' sizes: sentences of 20
  words (an assumption), layers unrolled into cells as Sockeye does by default. Its second row has an encoder of
  fused layers.

## Where the curves differ from the paper

- Solid lines have servers as fast as the link, as the what-if assumes. Dashed lines have servers at 10 GB/s,
  an assumption. The memory accesses of a server follow the authors' `kvstore_dist_server.h`: it copies the
  first gradient, adds the others, updates, and copies for each reply.
- VGG-19: the first gradient, which has most of the bytes, is ready when the backward pass begins. The link is
  then never idle. Whole layers take the time of the forward pass and the exchange. P3 takes at least the
  longer of exchange and step. Scheduling the link gains at most {share:.0%}, the share of the forward pass,
  at any bandwidth. A larger gain must come from time outside the link, such as the time of servers. A whole
  layer of 411 MB is pushed, then summed, then returned. With slices, all three happen at once.
- Four things are not modelled. MXNet sends each array of less than a million numbers to one server, so that
  the servers have unequal loads. Workers request parameters in separate messages. Gradients pass through host
  memory. MXNet has its own kernels and launch times. The share of each is unknown.
- The curve of whole layers with servers has jumps, for Sockeye from 22 to 23 Gbit/s. There, the reply of one
  large layer starts to precede the push of another. A maximum directly before a jump is less certain than
  other values.
- Above a certain bandwidth the exchange is hidden, and both are as fast as without it. That bandwidth is
  proportional to the GPU's speed and the reached share of the link, and for Sockeye to the length of
  sentences.
"""


def drawn(found: list[Point]) -> str:
    """The curves of all models as SVG: throughput over bandwidth."""
    side, edge = 260, 46
    lines = (
        ("whole layers", "layers", "#c33", ""),
        ("p3", "p3", "#27c", ""),
        ("whole layers, servers at 10 GB/s", "served_layers", "#c33", "5 3"),
        ("P3, servers at 10 GB/s", "served_p3", "#27c", "5 3"),
    )
    parts: list[str] = []
    for place, name in enumerate(MODELS):
        own = [one for one in found if one.model == name]
        if not own:
            continue
        left, top = edge + place % 2 * (side + edge + 10), 30 + place // 2 * (side + 70)
        most = own[0].unbound * 1.05

        def at(gbit_s: float, speed: float, left: int = left, top: int = top, most: float = most) -> str:
            return f"{left + gbit_s / 25 * side:.1f},{top + (1 - speed / most) * side:.1f}"

        parts.append(f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="#888"/>')
        parts.append(
            f'<text x="{left}" y="{top - 8}" font-weight="bold">{name}, {MODELS[name].unit}/s</text>'
        )
        for gbit_s in range(0, 26, 5):
            x = at(gbit_s, 0).split(",")[0]
            parts.append(f'<text x="{x}" y="{top + side + 14}" text-anchor="middle">{gbit_s}</text>')
        for speed in (0.0, own[0].unbound / 2, own[0].unbound):
            y = at(0, speed).split(",")[1]
            parts.append(f'<text x="{left - 4}" y="{y}" text-anchor="end">{speed:.0f}</text>')
        x = left + side / 2
        parts.append(f'<text x="{x}" y="{top + side + 28}" text-anchor="middle">Gbit/s</text>')
        for number, (label, field, colour, dashes) in enumerate(lines):
            curve = " ".join(at(one.gbit_s, getattr(one, field)) for one in own)
            dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
            parts.append(
                f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>'
            )
            y = top + side - 12 - 15 * (len(lines) - 1 - number)
            x = left + side - 8
            parts.append(f'<text x="{x}" y="{y}" text-anchor="end" fill="{colour}">{label}</text>')
            if dashes:
                parts[-1] = parts[-1].replace(f">{label}", f">- - {label}")
    size = f"0 0 {2 * side + 2 * edge + 60} {2 * side + 150}"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="11" '
        f'fill="#666">\n{body}\n</svg>\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--interpreter", help="a Python with torchvision; left out: this one")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    parser.add_argument("--pictures", type=Path, default=_PICTURES, help="folder for the picture")
    options = parser.parse_args()
    machine = Machine.here()
    found: list[Point] = []
    for name in options.only:
        model = MODELS[name]
        request = CaptureRequest(
            model.script,
            arguments=(*model.arguments, "--batch-size", str(_BATCH)),
            interpreter=options.interpreter,
            gpu=_GPU,
            batch_points=0,
        )
        found += points(name, baseline(gpu_profile(request, progress=lambda _: None)))
    text = page(found)
    write("p3_curves", "P3's curves", machine, text, [asdict(one) for one in found], results=options.results)
    options.pictures.mkdir(parents=True, exist_ok=True)
    (options.pictures / "p3_curves.svg").write_text(drawn(found), encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
