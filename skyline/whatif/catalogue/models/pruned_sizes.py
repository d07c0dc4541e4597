"""The sizes of a network after structured pruning: each layer but the last keeps a share of its output channels.

Counts equal those of ``torch-pruning`` with the same ratio for every layer: layers whose outputs are added to
each other have the same number of channels before, and thus also after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, Record
from skyline.whatif.catalogue.models.alignment import channels, padded

NAME = "prune"
_TIED = (
    *("Embedding", "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"),
    *("MultiheadAttention", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
)
"""Layers whose sizes depend on other sizes in ways that are not modelled: heads, states, tables."""
_PRODUCTS_OF_TWO = ("bmm", "matmul", "einsum", "baddbmm")
_NORMS = ("num_features", "num_channels")


@dataclass(frozen=True, slots=True)
class Cut:
    """The share of channels to remove from each layer; the remaining counts are multiples of ``multiple``."""

    ratio: float
    multiple: int = 1

    @classmethod
    def parse(cls, value: str) -> Cut:
        """The cut described by ``0.3`` or ``0.3:8``.

        Raises:
            UsageError: the value has neither form.
        """
        share, colon, multiple = value.partition(":")
        try:
            ratio = float(share)
        except ValueError:
            ratio = 0.0
        number = int(multiple) if multiple.isdecimal() and len(multiple) <= 4 else 0
        if not 0 < ratio < 1 or (colon and not 1 <= number <= 1024):
            raise UsageError(
                f"{NAME}={value} is not possible",
                hint=f"Give the share of channels to remove, for example {NAME}=0.3, or also a multiple: {NAME}=0.3:8.",
            )
        return cls(ratio, number or 1)

    def __str__(self) -> str:
        return f"{self.ratio!r}:{self.multiple}" if self.multiple > 1 else repr(self.ratio)

    def part(self, share: float) -> Cut:
        """The cut with ``share`` of this ratio, as in a gradual schedule."""
        return replace(self, ratio=share * self.ratio)

    def kept(self, count: int, groups: int = 1) -> int:
        """The number of ``count`` channels that remain, in equal groups: rounded down, but all if none would remain."""
        each = count // groups
        left = int(each * (1 - self.ratio))
        if left < each:
            left -= left % self.multiple
        return groups * left if left else count


@dataclass(frozen=True, slots=True)
class PrunedLayer:
    """A convolution or linear layer, with its present and its remaining channels."""

    module: ModuleFact
    inputs: int
    outputs: int
    kept_inputs: int
    kept_outputs: int

    @property
    def groups(self) -> int:
        """The number of groups of a convolution; 1 for other layers."""
        return _number(self.module, "groups") or 1

    @property
    def kept_groups(self) -> int:
        """The number of groups after pruning: a depthwise convolution has one for each remaining channel."""
        return self.kept_inputs if _is_depthwise(self.module) else self.groups

    @property
    def plain(self) -> bool:
        """True if its channels are not grouped, or if it is depthwise."""
        return self.groups == 1 or _is_depthwise(self.module)

    def arithmetic(self, width: int = 1) -> float:
        """The ratio of multiplications after pruning to those now, if units take ``width`` channels at a time."""
        now, then = self.computed(width)
        return then / now

    def computed(self, width: int = 1) -> tuple[int, int]:
        """The number of channel products computed now and after pruning, with vectors padded to ``width``."""
        return (
            _products(self.inputs, self.outputs, self.groups, width),
            _products(self.kept_inputs, self.kept_outputs, self.kept_groups, width),
        )

    @property
    def kept_parameters(self) -> float:
        """The number of its weights and biases after pruning."""
        bias = self.outputs if self.module.options.get("bias") else 0
        weights = max(0, self.module.parameter_count - bias)
        return weights * self.arithmetic() + (self.kept_outputs if bias else 0)

    def resized(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions after pruning of a tensor of its operators: data, weights or biases."""
        kept = {self.inputs: self.kept_inputs, self.outputs: self.kept_outputs}
        kernel = self.module.options.get("kernel_size")
        if kernel is None or len(size) < 3:
            return tuple(kept.get(one, one) for one in size)
        sides = kernel if isinstance(kernel, tuple) else (kernel,) * (len(size) - 2)
        if size[:2] == (self.outputs, self.inputs // self.groups) and size[2:] == sides:
            return (self.kept_outputs, self.kept_inputs // self.kept_groups, *size[2:])
        return (size[0], kept.get(size[1], size[1]), *size[2:])


@dataclass(frozen=True, slots=True)
class Pruned:
    """A pruned network: its layers by path, and the remaining number of channels for each present number."""

    layers: Mapping[str, PrunedLayer]
    sizes: Mapping[int, int]
    last: str
    """The path of the last layer, which keeps its outputs."""

    def parameter_share(self, modules: tuple[ModuleFact, ...]) -> float:
        """The ratio of the remaining parameters to the present ones."""
        now = then = 0.0
        for module in modules:
            layer, size = self.layers.get(module.path), _norm_size(module)
            now += module.parameter_count
            if layer is not None:
                then += layer.kept_parameters
            else:
                then += module.parameter_count * (self.sizes.get(size, size) / size if size else 1.0)
        return then / now if now else 1.0

    def shape(self, shape: OperatorShape, layer: PrunedLayer | None) -> OperatorShape:
        """An operator's call after pruning; ``layer`` is its layer, or None for any other module."""
        resized = self._resized if layer is None else layer.resized
        made = replace(
            shape, inputs=tuple(map(resized, shape.inputs)), outputs=tuple(map(resized, shape.outputs))
        )
        moved = numbers(made) / (numbers(shape) or 1)
        arithmetic = moved if layer is None else layer.arithmetic()
        return replace(
            made, flops=round(shape.flops * arithmetic), bytes_moved=round(shape.bytes_moved * moved)
        )

    def _resized(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """The size after pruning. Channels are the second dimension of images, and the last one of other tensors."""
        if not size:
            return size
        place = 1 if len(size) >= 4 else len(size) - 1
        return (*size[:place], self.sizes.get(size[place], size[place]), *size[place + 1 :])


def numbers(shape: OperatorShape) -> int:
    """The number of elements in all tensors of a call."""
    return sum(map(prod, (*shape.inputs, *shape.outputs)))


def why_not(profile: Profile) -> str:
    """The reason why the sizes of the pruned network are not known; empty if they are."""
    if not profile.modules:
        return "the layers of the model are not known; profile it again"
    if sum("." not in module.path for module in profile.modules) > 1:
        return "more than one model is trained"
    if profile.parallel is not None:
        return "the exchange between replicas is not predicted for a pruned model"
    tied = [module.class_name for module in profile.modules if module.class_name in _TIED]
    if tied:
        return (
            f"the sizes around {tied[0]} depend on other sizes: "
            "only convolutional and plain linear networks are supported"
        )
    if any(map(_multiplies_data, profile.trace.shapes)):
        return "it multiplies data with data, as attention does: heads are tied to sizes in the code"
    rows = _forward(profile)
    if _pads_channels(profile, rows):
        return "it pads channels by a fixed number: write that shortcut as a convolution"
    if len(_called(profile, _layers(profile), rows)) < 2:
        return "no layer lies between the data and the last layer"
    return ""


def pruned(profile: Profile, cut: Cut) -> Pruned:
    """The network with each layer but the last cut; call it only if ``why_not`` is empty.

    Raises:
        UsageError: multiples are requested for grouped convolutions.
    """
    layers = _layers(profile)
    first, *others = order = _called(profile, layers, _forward(profile))
    last = order[-1]
    groups = _groups(profile, layers)
    if cut.multiple > 1 and any(one > 1 for one in groups.values()):
        raise UsageError(
            f"{NAME} cannot round the channels of grouped convolutions to multiples",
            hint=f"Try {NAME}={cut.ratio!r}.",
        )
    sizes: dict[int, int] = {}
    for path in order[:-1]:
        made = layers[path][0]
        sizes[made] = cut.kept(made, groups.get(made, 1))
    data = layers[first][1]
    for before, path in zip(order, others, strict=False):
        taken, given = layers[path][1], layers[before][0]
        if taken in sizes or taken == data:
            continue
        # The layer takes flattened images, or several concatenated tensors.
        parts, rest = divmod(taken, given)
        sizes[taken] = parts * sizes[given] if parts > 1 and not rest else cut.kept(taken)
    for module in profile.modules:
        size = _norm_size(module)
        if size and size != data:
            sizes.setdefault(size, cut.kept(size))
    modules = {module.path: module for module in profile.modules}
    found = {
        path: PrunedLayer(
            modules[path],
            taken,
            made,
            taken if path == first else sizes.get(taken, taken),
            made if path == last else sizes[made],
        )
        for path in order
        for made, taken in (layers[path],)
    }
    return Pruned(found, sizes, last)


def last_layer(profile: Profile) -> str:
    """The path of the layer that is called last."""
    return _called(profile, _layers(profile), _forward(profile))[-1]


def example_size(profile: Profile) -> tuple[int, ...] | None:
    """The dimensions of the model's input, from its first operator; None if unknown."""
    trace = profile.trace
    inside = (row for row in _forward(profile) if row.module >= 0 and row.shape >= 0)
    sizes = (trace.shapes[row.shape].inputs for row in inside)
    return next((one[0] for one in sizes if one and len(one[0]) >= 2), None)


def _layers(profile: Profile) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of each convolution and linear layer."""
    found = {module.path: channels(module) for module in profile.modules if module.library}
    return {path: sizes for path, sizes in found.items() if sizes is not None}


def _called(profile: Profile, layers: Mapping[str, tuple[int, int]], rows: list[Record]) -> list[str]:
    """The layers in the order in which an iteration calls them."""
    names = profile.trace.modules
    paths = (names[row.module] for row in rows if row.module >= 0)
    return list(dict.fromkeys(path for path in paths if path in layers))


def _forward(profile: Profile) -> list[Record]:
    """The forward pass of one iteration, in order."""
    trace = profile.trace
    first = min((mark.index for mark in trace.iterations), default=0)
    rows = [row for row in trace.records if row.iteration == first and row.phase is Phase.FORWARD]
    return sorted(rows, key=lambda row: row.start_us)


def _groups(profile: Profile, layers: Mapping[str, tuple[int, int]]) -> dict[int, int]:
    """The number of groups by number of channels, from the convolutions and norms with that many channels."""
    found: dict[int, int] = {}
    for module in profile.modules:
        groups = _number(module, "groups") or _number(module, "num_groups") or 1
        if groups == 1 or _is_depthwise(module):
            continue
        for size in (*layers.get(module.path, ()), _norm_size(module)):
            found[size] = max(groups, found.get(size, 1))
    return found


def _norm_size(module: ModuleFact) -> int:
    """The number of channels of a norm; 0 for any other module."""
    if not module.library:
        return 0
    shape = module.options.get("normalized_shape")
    if isinstance(shape, tuple) and len(shape) == 1:
        return shape[0]
    return next((size for name in _NORMS if (size := _number(module, name))), 0)


def _is_depthwise(module: ModuleFact) -> bool:
    groups = _number(module, "groups")
    return groups > 1 and groups == _number(module, "in_channels") == _number(module, "out_channels")


def _number(module: ModuleFact, name: str) -> int:
    value = module.options.get(name)
    return value if isinstance(value, int) else 0


def _products(inputs: int, outputs: int, groups: int, width: int) -> int:
    if groups == inputs == outputs:
        return padded(outputs, width)
    return groups * padded(inputs // groups, width) * padded(outputs // groups, width)


def _multiplies_data(shape: OperatorShape) -> bool:
    name = shape.operator.rpartition("::")[2]
    of_two = name in _PRODUCTS_OF_TWO and sum(len(size) >= 3 for size in shape.inputs) >= 2
    return of_two or "scaled_dot_product" in name


def _pads_channels(profile: Profile, forward: list[Record]) -> bool:
    """True if images are padded to more channels: one of the next four operators has an input of that size."""
    shapes = profile.trace.shapes
    rows = [row for row in forward if row.module >= 0 and row.shape >= 0]
    for place, row in enumerate(rows):
        size = next(iter(shapes[row.shape].inputs), ())
        if "pad" not in row.name or len(size) < 4:
            continue
        for other in rows[place + 1 : place + 5]:
            for one in shapes[other.shape].inputs:
                if len(one) == len(size) and (one[0], one[2:]) == (size[0], size[2:]) and one[1] > size[1]:
                    return True
    return False
