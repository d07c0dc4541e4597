"""Step time of data parallelism that exchanges only its largest gradients, by the rate of the network.

    python benchmarks/plan_topk.py

The cluster is the one of Shi and others (MLSys 2021): 16 nodes of 8 V100, 25 Gbit/s between nodes. Their system, with
a cache for its data and a parallel update, is 25 to 40 % faster than their best dense system on CNNs and a Transformer.
Here a Transformer of about the base size is planned, dense and with 1 % and 0.1 % of the gradients. Dense exchange is
the baseline.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace

from machine import Machine
from result_file import table, write

from skyline.plan.cluster import ClusterLink, cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.step import step_time
from skyline.plan.strategy import Strategy
from skyline.plan.transformer import Transformer
from skyline.plan.work import work_of
from skyline.predict.registry import predictor_for

MODEL = Transformer(
    name="transformer-base", blocks=12, width=512, heads=8, hidden=2048, vocabulary=32_000, sequence=64
)
GBIT_S = (1, 5, 10, 25, 50, 100, 200)
SENT = (1.0, 0.01, 0.001)
MICRO_BATCH, NODES = 64, 16
PUBLISHED_GBIT_S = 25


@dataclass(frozen=True, slots=True)
class Row:
    """Step times in ms at one rate between nodes, for each share of the gradients."""

    gbit_s: float
    steps_ms: tuple[float, ...]

    @property
    def faster(self) -> tuple[float, ...]:
        """The dense step time over the others."""
        return tuple(self.steps_ms[0] / one for one in self.steps_ms[1:])


def row(gbit_s: float) -> Row:
    """The steps at a rate."""
    cluster = replace(
        cluster_named("dgx1-v100").with_gpus(8 * NODES), between=ClusterLink(gb_s=gbit_s / 8, latency_us=20)
    )
    kernels = KernelTimes(cluster.gpu, predictor_for(cluster.gpu))
    steps: list[float] = []
    for sent in SENT:
        strategy = Strategy(data=8 * NODES, micro_batch=MICRO_BATCH, sent=sent)
        work = work_of(MODEL.layers(strategy), kernels, strategy.precision)
        steps.append(step_time(work, strategy, cluster).total_us / 1e3)
    return Row(gbit_s, tuple(steps))


def main() -> int:
    """Plan at each rate, and write the page."""
    machine = Machine.here()
    rows = [row(rate) for rate in GBIT_S]
    head = (
        "between nodes, Gbit/s",
        "dense, ms",
        *(f"{one:.1%}, ms" for one in SENT[1:]),
        "dense over 1 %",
        "over 0.1 %",
    )
    cells = [
        (
            f"{one.gbit_s:g}",
            *(f"{step:.1f}" for step in one.steps_ms),
            *(f"{gain:.2f}x" for gain in one.faster),
        )
        for one in rows
    ]
    here = next(one for one in rows if one.gbit_s == PUBLISHED_GBIT_S)
    body = (
        f"{NODES} nodes of 8 V100. {MODEL.name}: {MODEL.blocks} blocks of width {MODEL.width}, {MICRO_BATCH} sequences "
        f"of {MODEL.sequence} tokens on each GPU. These sizes are an assumption, because the paper's were "
        f"not available. Dense exchange is the fastest of ring, tree and hierarchical. At {PUBLISHED_GBIT_S} "
        "Gbit/s the published system is 1.25 to 1.40 times as fast as the best dense system of its authors. "
        "It also has cached data and a parallel update, which are not modelled. Here the exchange alone "
        f"gains {here.faster[0]:.2f}x and {here.faster[1]:.2f}x. No step was measured.\n\n"
        f"{table(head, cells)}"
    )
    print(write("plan_topk", "Only the largest gradients", machine, body, [asdict(one) for one in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
