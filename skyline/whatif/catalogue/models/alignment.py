"""The layers whose sizes suit matrix units badly, and the effect of padding them."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile

_OUTPUTS = {
    "Linear": "out_features",
    "Conv1d": "out_channels",
    "Conv2d": "out_channels",
    "Conv3d": "out_channels",
}
_INPUTS = {"Linear": "in_features", "Conv1d": "in_channels", "Conv2d": "in_channels", "Conv3d": "in_channels"}
EFFICIENT_FROM = {2: 8, 4: 4}
"""The number of elements of each width in bytes in the 16 bytes that kernels load at a time. NVIDIA, Matrix
Multiplication Background User's Guide, on requirements of Tensor Cores: most efficient if sizes are multiples
of 16 bytes."""
_UNALIGNED = Interval(0.6, 0.25, 1.0)
"""Ratio of a product's time with aligned sizes to that with unaligned ones; the same guide shows 0.25 to 1."""
_ALIGNED_FURTHER = Interval(0.97, 0.85, 1.0)
"""The same ratio if the sizes are already multiples of 16 bytes, and larger tiles fit better."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A layer with a size that is not a multiple: the rows of an ``Embedding``, or the outputs or inputs of others.

    ``outputs`` and ``inputs`` are the present sizes, ``padded_outputs`` and ``padded_inputs`` the new ones.
    """

    module: ModuleFact
    outputs: int
    inputs: int
    padded_outputs: int
    padded_inputs: int

    @property
    def growth(self) -> float:
        """The factor by which arithmetic and weights of the layer grow."""
        return self.padded_outputs * self.padded_inputs / (self.outputs * self.inputs)

    @property
    def added(self) -> float:
        """The number of added parameters."""
        return self.module.parameter_count * (self.growth - 1)

    def factor(self, element_bytes: int) -> Interval:
        """The ratio of the time of its products after padding to the present time."""
        wanted = EFFICIENT_FROM[element_bytes]
        aligned = self.outputs % wanted == 0 and self.inputs % wanted == 0
        gain = _ALIGNED_FURTHER if aligned else _UNALIGNED
        # Tiles are larger than the padding, so that at best no further tile is computed.
        return Interval(gain.value, gain.low, gain.high * self.growth)


def padded(size: int, multiple: int) -> int:
    """The smallest multiple that is not below ``size``."""
    return -(-size // multiple) * multiple


def odd_layers(profile: Profile, multiple: int) -> tuple[Odd, ...]:
    """The layers of the model with a size of their own that is not a multiple and exceeds ``multiple``.

    These sizes are numbers of outputs, and the inputs of the layers that take these outputs. Sizes that come
    with the data (features, colours) stay, and so do embeddings whose rows no layer predicts.
    """
    modules = [module for module in profile.modules if module.library and module.parameter_count]
    made = {
        size
        for module in modules
        if (size := _size(module, _OUTPUTS)) is not None and size > multiple and size % multiple
    }
    found: list[Odd] = []
    for module in modules:
        outputs, inputs = _size(module, _OUTPUTS), _size(module, _INPUTS)
        if module.class_name == "Embedding":
            outputs, inputs = module.options.get("num_embeddings"), module.options.get("embedding_dim")
        if not isinstance(outputs, int) or not isinstance(inputs, int):
            continue
        new = tuple(padded(size, multiple) if size in made else size for size in (outputs, inputs))
        if new != (outputs, inputs):
            found.append(Odd(module, outputs, inputs, *new))
    return tuple(found)


def element_bytes(profile: Profile) -> int:
    """The bytes of a number that matrix units multiply: 2, or 4 with TF32; 0 if none are used, or if unknown."""
    settings = profile.settings
    if settings is None:
        return 0
    shapes = profile.trace.shapes
    narrow = any(name in ("bfloat16", "float16") for one in shapes if one.flops for name in one.dtypes)
    if narrow or settings.autocast in ("bfloat16", "float16"):
        return 2
    return 4 if settings.matmul_precision in ("high", "medium") else 0


def _size(module: ModuleFact, names: dict[str, str]) -> int | None:
    size = module.options.get(names.get(module.class_name, ""))
    return size if isinstance(size, int) else None


def channels(module: ModuleFact) -> tuple[int, int] | None:
    """The outputs and inputs of a linear layer or convolution; None for any other module."""
    outputs, inputs = _size(module, _OUTPUTS), _size(module, _INPUTS)
    return None if outputs is None or inputs is None else (outputs, inputs)
