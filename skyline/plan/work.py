"""The layers of one rank with their times on a GPU."""

from __future__ import annotations

from dataclasses import replace

from skyline.lazy_dataclass import dataclass
from skyline.plan.kernel_time import KernelTimes, PartTime
from skyline.plan.layers import Layers
from skyline.plan.strategy import Precision
from skyline.predict.gpus import gpu_named


@dataclass(frozen=True, slots=True)
class Work:
    """Layers of one rank with their times."""

    layers: Layers
    block: PartTime
    first: PartTime
    last: PartTime
    single_device: bool = False
    """True for times of one device alone, without the spread of several ranks."""
    chain: tuple[PartTime, ...] = ()
    """Times of the layers of ``layers.chain``."""

    @property
    def total_us(self) -> float:
        """The forward and backward pass of one micro-batch."""
        return self.block.total_us * self.layers.blocks + self.first.total_us + self.last.total_us


def work_of(layers: Layers, kernels: KernelTimes, precision: Precision) -> Work:
    """The times of a rank's layers. In a script, they add up to the pass that was predicted for it."""
    work = Work(
        layers,
        kernels.part(layers.block, precision),
        kernels.part(layers.first, precision),
        # The output layer and embeddings stay in bfloat16.
        kernels.part(layers.last, Precision.MIXED if precision is Precision.FLOAT8 else precision),
        layers.single_device,
    )
    factor = _as_predicted(work, kernels, precision)
    chain = [kernels.part(part, precision) for part in layers.chain]
    # Different layers together take the predicted pass, too.
    whole_us = sum(part.total_us for part in chain)
    share = factor * work.total_us / whole_us if layers.known and whole_us else factor
    return replace(
        work,
        block=work.block.scaled(factor),
        first=work.first.scaled(factor),
        last=work.last.scaled(factor),
        chain=tuple(part.scaled(share) for part in chain),
    )


def _as_predicted(work: Work, kernels: KernelTimes, precision: Precision) -> float:
    """The factor on the sum of operators that gives the predicted pass: operators fuse, and kernels wait for launches.

    On another GPU, kernels keep their ratio to the sum of operators, and the host's own time does not change.
    """
    layers, total_us, known = work.layers, work.total_us, work.layers.known
    if known is None or not total_us:
        return 1.0
    there_us = total_us
    if known.gpu != kernels.gpu.name:
        there = KernelTimes(gpu_named(known.gpu), kernels.predictor)
        there_us = work_of(replace(layers, known=None), there, precision).total_us
    host_us = max(0.0, known.pass_us - known.kernels_us)
    return known.kernels_us / there_us + host_us / total_us
