"""Memory traffic of a network in sub-batches, by the size of the buffer that holds their activations.

Groups and sizes come from the shortest path of ``serialize``, with bytes as costs instead of microseconds. Layers are
the kernels of a predicted profile, so nothing runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.whatif.catalogue.host.traffic import traffic
from skyline.whatif.cost.sub_batches import LayerCost, Serialization

_KEEP_INPUT = ("convolution", "native_group_norm", "max_pool2d_with_indices", "addmm")
_KEEP_OUTPUT = ("relu", "relu_")
_ADDS = ("add", "add_")


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of the forward pass, with bytes of the whole batch.

    ``branch_bytes`` are the bytes of inputs that do not come from the previous layer and wait in memory.
    ``keeps_input`` and ``keeps_output`` tell what its backward pass reads. ``adds`` is True where branches meet. Their
    gradients are copies.
    """

    input_bytes: int
    branch_bytes: int
    output_bytes: int
    weight_bytes: int
    keeps_input: bool = False
    keeps_output: bool = False
    adds: bool = False

    @property
    def lockstep_bytes(self) -> int:
        """Traffic of both passes over the whole batch, if each layer reads and writes its tensors in memory."""
        forward = self.input_bytes + self.branch_bytes + self.output_bytes + self.weight_bytes
        if self.adds:
            # Where the branches separate, their gradients are added.
            return forward + 3 * self.branch_bytes
        kept = self.keeps_input * self.input_bytes + self.keeps_output * self.output_bytes
        return forward + self.output_bytes + kept + self.input_bytes + 2 * self.weight_bytes

    def serial_bytes(self, parts: int, *, written: bool) -> int:
        """Traffic of both passes in sub-batches whose activations stay in the buffer.

        ``written`` is True for an output that a backward pass or a later layer reads from memory. The gradient of a
        branch is written and read. Weights are read for each part in each pass.
        """
        branches = (3 if self.adds else 1) * self.branch_bytes
        return branches + 2 * written * self.output_bytes + (2 * parts + 1) * self.weight_bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """Traffic of an iteration, at present and in sub-batches, and the size of the sub-batches of each group."""

    now_bytes: float
    bytes: float
    sizes: tuple[int, ...]

    @property
    def less(self) -> float:
        """The share of the present traffic that is saved."""
        return 1 - self.bytes / self.now_bytes


def layers_of(profile: Profile) -> tuple[Layer, ...]:
    """The layers of a predicted profile's first iteration, in the order of the forward pass."""
    trace, samples = profile.trace, profile.batch_size
    first = trace.iterations[0].index
    found: list[Layer] = []
    before = 0
    for record in trace.records:
        forward = record.kind is RecordKind.KERNEL and record.phase is Phase.FORWARD
        if not forward or record.iteration != first or record.shape < 0:
            continue
        shape = trace.shapes[record.shape]
        if len(shape.outputs[0]) > 1 and shape.outputs[0][0] == samples:
            found.append(_layer(shape, before))
            before = prod(shape.outputs[0])
    return tuple(found)


def moved(layers: Sequence[Layer], samples: int, buffer_bytes: float) -> Moved:
    """The smallest traffic of a batch of ``samples`` samples with this buffer."""
    parts = [number for number in range(1, samples + 1) if samples % number == 0]
    costs = [
        _cost(layer, after, samples, parts) for layer, after in zip(layers, (*layers[1:], None), strict=True)
    ]
    path = Serialization(costs, samples, buffer_bytes, 1.0)
    groups = path.groups()
    now = sum(layer.lockstep_bytes for layer in layers)
    return Moved(now, now + sum(path.changes_us(groups)), tuple(group.samples for group in groups))


def _cost(layer: Layer, after: Layer | None, samples: int, parts: Sequence[int]) -> LayerCost:
    kept = layer.keeps_output or (after is not None and after.keeps_input)
    # The next layer takes another tensor, so this one is read later.
    waits = after is not None and not after.input_bytes
    by_size = {
        samples // number: float(layer.serial_bytes(number, written=kept or waits)) for number in parts[1:]
    }
    # The input of a group is read, its gradient is written, and it is read again if the backward pass needs it.
    entered = (2 + layer.keeps_input) * layer.input_bytes
    held = layer.input_bytes + layer.branch_bytes + layer.output_bytes
    by_size[samples] = float(layer.lockstep_bytes)
    return LayerCost(entered, layer.output_bytes, held, layer.weight_bytes, by_size)


def _layer(shape: OperatorShape, before: int) -> Layer:
    bare = shape.operator.rpartition("::")[2]
    samples = shape.outputs[0][0]
    reads = traffic(shape).reads
    batch = [(prod(one), size) for one, size in reads if len(one) > 1 and one[0] == samples]
    chained = next((place for place, (numbers, _) in enumerate(batch) if numbers == before), None)
    if chained is None and not before:
        chained = 0
    taken = sum(size for _, size in batch)
    given = 0 if chained is None else batch[chained][1]
    # The first of several outputs is the input of the next layer. The others are indices or statistics.
    alone = replace(shape, outputs=shape.outputs[:1], output_dtypes=shape.output_dtypes[:1])
    return Layer(
        input_bytes=given,
        branch_bytes=taken - given,
        output_bytes=traffic(alone).writes[1],
        weight_bytes=sum(size for _, size in reads) - taken,
        keeps_input=bare in _KEEP_INPUT,
        keeps_output=bare in _KEEP_OUTPUT,
        adds=bare in _ADDS,
    )
