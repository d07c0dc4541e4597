"""A preset: a known training with a stack of optional measures, which are timed together on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.constant import OPTIMIZER_PASSES
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.rank_memory import RankMemory, largest_rank
from skyline.plan.search import USABLE
from skyline.plan.step import step_range
from skyline.plan.strategy import Precision, Strategy
from skyline.plan.transformer import Transformer
from skyline.plan.work import Work, work_of
from skyline.predict.operator_time import OperatorPredictor
from skyline.whatif.base import Semantics
from skyline.whatif.constant import Constant

_MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
UNFUSED_UPDATE = Constant.at(
    80 / 28,
    "bytes of AdamW operator by operator over those in one pass: skyline/whatif/cost/optimizer_step.py",
)
"""Memory traffic of an update that is not fused, as a multiple of the minimum."""
CHECKPOINT_BYTES = 12
"""Bytes of a parameter in a checkpoint: itself and two moments of Adam in float32."""
DISK_BYTES_PER_S = Constant(
    0.5e9, 0.1e9, 2e9, "assumed: a solid-state disk that the servers of a group share"
)
VALIDATION_SAMPLES = Constant.at(800, "100 batches of 8, the evaluation of BERT's own run_pretraining.py")
"""Number of sequences of a validation pass."""


@dataclass(frozen=True, slots=True)
class Job:
    """A training that is timed with data parallelism, or on one GPU."""

    model: Transformer
    precision: Precision
    batch: int
    """Number of sequences of a step over all ranks."""
    parallel: bool = True
    """False for a single GPU of the cluster."""
    fused_optimizer: bool = True
    stop_every: int = 0
    """Number of sequences between stops for a checkpoint and a validation pass. 0 for no stops."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A change of the job with its effect on the training."""

    name: str
    title: str
    semantics: Semantics
    change: Callable[[Job], Job]


@dataclass(frozen=True, slots=True)
class Published:
    """A published figure, in words, and its source."""

    figure: str
    source: str


@dataclass(frozen=True, slots=True)
class Preset:
    """The job without measures, the measures in order, and the published figures to compare with.

    ``cluster`` is the cluster of the publication. ``tokens`` is the amount of the whole training; ``amount``
    describes it.
    """

    name: str
    title: str
    start: Job
    measures: tuple[Measure, ...]
    cluster: str
    tokens: float
    amount: str
    published: tuple[Published, ...]

    def job(self, chosen: Collection[str]) -> Job:
        """The job with the measures of these names."""
        job = self.start
        for measure in self.measures:
            if measure.name in chosen:
                job = measure.change(job)
        return job


@dataclass(frozen=True, slots=True)
class TimedJob:
    """A job with its best micro-batch."""

    job: Job
    strategy: Strategy
    cluster: ClusterSpec
    step_us: Interval
    memory: RankMemory
    stopped: float
    """Share of the time that checkpoints and validation take."""

    @property
    def tokens_per_s(self) -> Interval:
        """Tokens per second over the whole training, including its stops."""
        tokens = self.strategy.samples_per_step * self.job.model.sequence
        return self.step_us.inverse(tokens * 1e6 * (1 - self.stopped))


def timed(job: Job, cluster: ClusterSpec, kernels: KernelTimes) -> TimedJob | None:
    """The job at the micro-batch with the shortest step. None if no micro-batch that divides the batch fits."""
    ranks = cluster.gpus if job.parallel else 1
    there = cluster if job.parallel else cluster.with_gpus(1)
    best: TimedJob | None = None
    for micro_batch in _MICRO_BATCHES:
        accumulation, rest = divmod(job.batch, ranks * micro_batch)
        if rest or not accumulation:
            continue
        strategy = Strategy(
            data=ranks, micro_batch=micro_batch, accumulation=accumulation, precision=job.precision
        )
        layers = job.model.layers(strategy)
        memory = largest_rank(layers, strategy)
        if memory.peak_bytes > USABLE * there.gpu.memory_bytes:
            break
        work = work_of(layers, kernels, job.precision)
        step, total = step_range(work, strategy, there)
        if not job.fused_optimizer:
            # The update is one of the additive parts of a step.
            factor = UNFUSED_UPDATE.value / OPTIMIZER_PASSES.value
            total = total.plus(Interval.exact(step.optimizer_us * (factor - 1)))
        if best is None or total.value < best.step_us.value:
            best = TimedJob(job, strategy, there, total, memory, _stopped(job, work, strategy, total.value))
    return best


def _stopped(job: Job, work: Work, strategy: Strategy, step_us: float) -> float:
    """The share of the time for checkpoints, which one rank writes while the others wait, and for validation."""
    if not job.stop_every:
        return 0.0
    training_s = step_us / 1e6 * job.stop_every / job.batch
    forward_us = work.block.forward.total_us * work.layers.blocks
    forward_us += work.first.forward.total_us + work.last.forward.total_us
    validation_s = forward_us / 1e6 * VALIDATION_SAMPLES.value / (strategy.micro_batch * strategy.data)
    checkpoint_s = CHECKPOINT_BYTES * work.layers.parameters / DISK_BYTES_PER_S.value
    stop_s = validation_s + checkpoint_s
    return stop_s / (training_s + stop_s)


@dataclass(frozen=True, slots=True)
class Rung:
    """A measure with three jobs: the stack up to it, the measure alone on the start, and the whole stack without it.

    A job is None if it does not fit the GPU.
    """

    measure: Measure
    stacked: TimedJob | None
    alone: TimedJob | None
    without: TimedJob | None


@dataclass(frozen=True, slots=True)
class Ladder:
    """A preset on a cluster: the start, each chosen measure, and all of them together."""

    start: TimedJob | None
    rungs: tuple[Rung, ...]
    joint: TimedJob | None


def ladder(
    preset: Preset, cluster: ClusterSpec, predictor: OperatorPredictor, left_out: Collection[str] = ()
) -> Ladder:
    """Time the chosen measures one by one and together. Each time is the time of a whole job."""
    kernels = KernelTimes(cluster.gpu, predictor)
    chosen = [one for one in preset.measures if one.name not in left_out]
    names = [one.name for one in chosen]

    def with_measures(some: Collection[str]) -> TimedJob | None:
        return timed(preset.job(some), cluster, kernels)

    rungs = tuple(
        Rung(
            measure,
            with_measures(names[: number + 1]),
            with_measures([measure.name]),
            with_measures([one for one in names if one != measure.name]),
        )
        for number, measure in enumerate(chosen)
    )
    return Ladder(with_measures(()), rungs, with_measures(names))
