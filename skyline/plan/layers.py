"""A model as the planner sees it: a repeated block between a first and a last part, each with its operators."""

from __future__ import annotations

from typing import Protocol

from skyline.lazy_dataclass import dataclass
from skyline.plan.strategy import Strategy
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class LayerPart:
    """The work of one micro-batch on one rank. ``parameters`` counts the parameters in the rank's share.

    ``saved_bytes`` is the size of the activations that the backward pass needs, ``selective_bytes`` with
    selective recomputation, ``input_bytes`` of the input alone.
    """

    forward: tuple[OperatorShape, ...] = ()
    backward: tuple[OperatorShape, ...] = ()
    again: tuple[OperatorShape, ...] = ()
    """Operators that full recomputation repeats: the forward pass up to the last activation that is needed
    (early stop)."""
    parameters: float = 0.0
    saved_bytes: float = 0.0
    selective_bytes: float = 0.0
    input_bytes: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class KnownPass:
    """The forward and backward pass of one micro-batch as predicted for a GPU, in µs: total and kernels."""

    gpu: str
    pass_us: float
    kernels_us: float


@dataclass(frozen=True, slots=True)
class Layers:
    """A model split by a strategy's tensor, context and expert parallelism, at its micro-batch.

    ``tensor_bytes`` is the size of the activation that tensor parallelism reduces twice in each direction of
    a block. ``context_bytes`` is the size of the keys and values of one rank. ``expert_bytes`` is the size of
    the tokens that a rank sends to experts, once in each direction. ``expert_parameters`` of a block's
    parameters differ between the ranks of expert parallelism.
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
    """True for times of one device without other ranks. Fitted constants of transformers include the ranks' spread."""
    host_images: bool = False
    """True if the host decodes images for each sample: the ranks then wait longer for each other."""
    known: KnownPass | None = None
    chain: tuple[LayerPart, ...] = ()
    """The model as different layers in the order in which they run. If there are any, the stages of a
    pipeline consist of them."""

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
        """Tokens of a sample. 1 if samples are counted."""
        ...

    @property
    def flops_per_sample(self) -> float:
        """Arithmetic of the forward and backward pass of one sample, without recomputation."""
        ...

    @property
    def block_count(self) -> int:
        """The number of repeated blocks, or of different layers: the largest number of pipeline stages."""
        ...

    def refusal(self, strategy: Strategy) -> str:
        """The reason why the model cannot be split by this strategy. Empty if it can."""
        ...

    def layers(self, strategy: Strategy) -> Layers:
        """The work of one rank."""
        ...
