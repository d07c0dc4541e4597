"""A strategy: the distribution of a job over ranks, and its trades of time for memory."""

from __future__ import annotations

from enum import Enum
from math import ceil

from skyline.lazy_dataclass import dataclass


class Sharding(str, Enum):
    """The state that the ranks of data parallelism divide among themselves."""

    NONE = "ddp"
    """No sharding: gradients are all-reduced."""
    ZERO_1 = "zero1"
    """Optimizer state."""
    ZERO_2 = "zero2"
    """Optimizer state and gradients."""
    ZERO_3 = "fsdp"
    """Parameters as well: gathered for each block in the forward pass and again in the backward pass (FSDP, ZeRO-3)."""


class Recompute(str, Enum):
    """Activations that the backward pass recomputes."""

    NONE = "none"
    SELECTIVE = "selective"
    """Elementwise operators and every second product."""
    FULL = "full"
    """All of a block except its input."""


class PipelineSchedule(str, Enum):
    """The order of micro-batches on the stages of a pipeline."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"
    ASYNCHRONOUS = "async"

    @property
    def flushes(self) -> bool:
        """True if a step ends with an empty pipeline. Without flushes, gradients belong to older weights."""
        return self is not PipelineSchedule.ASYNCHRONOUS


class Precision(str, Enum):
    """Number formats of the job."""

    MIXED = "amp_bf16"
    """Products in bfloat16; parameters, gradients and optimizer state in float32."""
    PURE = "bf16"
    """Everything in bfloat16."""
    FLOAT8 = "float8"
    """Products in float8, everything else as in mixed precision."""
    HALF = "amp_fp16"
    """Mixed precision with products in float16, for GPUs without bfloat16."""
    SINGLE = "fp32"
    """Everything in float32."""

    @property
    def number_format(self) -> str:
        """The format of activations."""
        return {Precision.HALF: "float16", Precision.SINGLE: "float32"}.get(self, "bfloat16")

    @property
    def width_bytes(self) -> int:
        """Bytes of an activation, and of a gathered parameter."""
        return 4 if self is Precision.SINGLE else 2

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient."""
        return 2 if self is Precision.PURE else 4

    @property
    def copies_weights(self) -> bool:
        """True if products use a copy of the parameters in another format."""
        return self not in (Precision.PURE, Precision.SINGLE)


@dataclass(frozen=True, slots=True)
class Strategy:
    """Sizes of the kinds of parallelism, whose product is the number of ranks.

    ``micro_batch`` is the batch of one rank in one forward pass. ``accumulation`` is the number of such
    passes in a step. ``chunks`` is the number of model parts of a rank in an interleaved schedule.
    """

    data: int = 1
    sharding: Sharding = Sharding.NONE
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    micro_batch: int = 1
    accumulation: int = 1
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    chunks: int = 1
    recompute: Recompute = Recompute.NONE
    precision: Precision = Precision.MIXED
    offload: bool = False
    """True to keep the optimizer state in the host's memory and update it there."""
    compiled: bool = False
    async_tensor: bool = False
    sent: float = 1.0
    """Share of the gradients that ranks of ``ddp`` send, the largest ones. Less than 1 changes the training."""
    stage_blocks: tuple[int, ...] = ()
    """The number of blocks of each stage of a pipeline. Empty if they are spread evenly."""
    stage_recomputed: tuple[int, ...] = ()
    """The number of blocks of each stage that recompute. Empty if all do as ``recompute`` states."""

    @property
    def ranks(self) -> int:
        """The number of GPUs. Experts are spread over the ranks of data parallelism."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def samples_per_step(self) -> int:
        """Samples of one optimizer step over all ranks."""
        return self.data * self.micro_batch * self.accumulation

    @property
    def changes_convergence(self) -> bool:
        """True if the same number of steps trains another model."""
        return self.sent < 1 or not self.schedule.flushes

    def weight_versions(self, stage: int = 0) -> int:
        """Number of weight versions with which the micro-batches in flight on a stage began.

        With p stages and an update after each micro-batch it is p - stage (PipeDream, Narayanan et al. 2019).
        With p or more micro-batches in a step it is 2 (PipeDream-2BW, Narayanan et al. 2021).
        """
        if self.schedule.flushes:
            return 1
        return 1 + ceil((self.pipeline - 1 - stage) / self.accumulation)

    def blocks_on(self, stage: int, blocks: int) -> int:
        """The number of blocks of a stage, of ``blocks`` in total."""
        return self.stage_blocks[stage] if self.stage_blocks else ceil(blocks / self.pipeline)

    def recomputed_on(self, stage: int, blocks: int) -> int:
        """The number of blocks of a stage that recompute, of ``blocks`` in total."""
        if self.recompute is Recompute.NONE:
            return 0
        return self.stage_recomputed[stage] if self.stage_recomputed else self.blocks_on(stage, blocks)

    def label(self) -> str:
        """A short name, such as ``fsdp 16 x tp 8, micro-batch 2 x 4, recompute full``."""
        sizes = [f"{self.sharding.value} {self.data}"]
        sizes += [
            f"{name} {size}"
            for name, size in (("tp", self.tensor), ("pp", self.pipeline), ("cp", self.context))
            if size > 1
        ]
        if self.expert > 1:
            sizes.append(f"ep {self.expert}")
        parts = [" x ".join(sizes), f"micro-batch {self.micro_batch} x {self.accumulation}"]
        if self.pipeline > 1:
            virtual = f" ({self.chunks} chunks)" if self.chunks > 1 else ""
            parts.append(f"{self.schedule.value}{virtual}")
            if not self.schedule.flushes:
                parts.append(f"{self.weight_versions()} weight versions (changes convergence)")
        if self.recompute is not Recompute.NONE:
            some = f" in {sum(self.stage_recomputed)} of {sum(self.stage_blocks)} blocks"
            parts.append(f"recompute {self.recompute.value}{some if self.stage_recomputed else ''}")
        if self.offload:
            parts.append("offload")
        if self.sent < 1:
            parts.append(f"top-k {self.sent:.2%} (changes convergence)")
        return ", ".join(parts)
