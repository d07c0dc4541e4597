"""A model as the planner sees it: a repeated block between a first and a last part, each with its operators."""

from __future__ import annotations

from typing import Protocol

from skyline.lazy_dataclass import dataclass
from skyline.plan.strategy import Strategy
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class LayerPart:
    """The work of one micro-batch on one rank. ``parameters`` counts those of the rank's share.

    ``saved_bytes`` are the activations that the backward pass needs, ``selective_bytes`` those with selective
    recomputation, ``input_bytes`` the input alone.
    """

    forward: tuple[OperatorShape, ...] = ()
    backward: tuple[OperatorShape, ...] = ()
    again: tuple[OperatorShape, ...] = ()
    """Repeated by full recomputation: the forward pass up to the last activation that is needed (early stop)."""
    parameters: float = 0.0
    saved_bytes: float = 0.0
    selective_bytes: float = 0.0
    input_bytes: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class KnownPass:
    """The forward and backward pass of one micro-batch as predicted for a GPU, in µs: as a whole, and its kernels."""

    gpu: str
    pass_us: float
    kernels_us: float


@dataclass(frozen=True, slots=True)
class Layers:
    """A model split by a strategy's tensor, context and expert parallelism, at its micro-batch.

    ``tensor_bytes`` is the activation that tensor parallelism reduces twice in each direction of a block,
    ``context_bytes`` the keys and values of one rank, ``expert_bytes`` the tokens that a rank sends to experts, once
    there and once back. ``expert_parameters`` of a block's parameters differ between ranks of expert parallelism.
    """

    block: LayerPart
    blocks: int
    first: LayerPart
    last: LayerPart
    tensor_bytes: float = 0.0
    context_bytes: float = 0.0
    expert_bytes: float = 0.0
    expert_parameters: float = 0.0
    single_device: bool = False
    """True if times without other ranks are asked for: fitted constants of transformers include their spread."""
    host_images: bool = False
    """True if the host decodes images for each sample: its ranks wait longer for each other."""
    known: KnownPass | None = None
    chain: tuple[LayerPart, ...] = ()
    """The model as layers that differ, in the order in which they run; a pipeline is cut out of them, if there are any.
    """

    @property
    def parameters(self) -> float:
        """Parameters of all blocks and ends on one rank without pipeline or sharding."""
        return self.block.parameters * self.blocks + self.first.parameters + self.last.parameters


class ModelWork(Protocol):
    """A model that can be split: a described transformer or a traced program."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    @property
    def unit(self) -> str:
        """``tokens`` or ``samples``: the unit of throughput."""
        ...

    @property
    def units_per_sample(self) -> float:
        """Tokens of a sample; 1 where samples are counted."""
        ...

    @property
    def flops_per_sample(self) -> float:
        """Arithmetic of forward and backward pass of one sample, without recomputation."""
        ...

    @property
    def block_count(self) -> int:
        """The number of repeated blocks, or of layers that differ: the most stages of a pipeline."""
        ...

    def refusal(self, strategy: Strategy) -> str:
        """Why the model cannot be split like that; empty if it can."""
        ...

    def layers(self, strategy: Strategy) -> Layers:
        """The work of one rank."""
        ...
