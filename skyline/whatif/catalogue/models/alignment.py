"""Which layers have sizes that matrix units do not like, and what padding them would do."""

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
"""Number of elements of so many bytes in the 16 bytes that kernels load at a time. NVIDIA, Matrix Multiplication
Background User's Guide, on requirements of Tensor Cores: most efficient where sizes are multiples of 16 bytes."""
_UNALIGNED = Interval(0.6, 0.25, 1.0)
"""Time of a product with sizes of a multiple over that of one without; the same guide shows 0.25 to 1."""
_ALIGNED_FURTHER = Interval(0.97, 0.85, 1.0)
"""The same where 16 bytes divide the sizes already, and larger tiles fit better."""


@dataclass(frozen=True, slots=True)
class Odd:
    """A layer with a size that is no multiple; of ``Embedding`` the number of rows, else of outputs or inputs.

    ``outputs`` and ``inputs`` are the sizes now, ``padded_outputs`` and ``padded_inputs`` those to come.
    """

    module: ModuleFact
    outputs: int
    inputs: int
    padded_outputs: int
    padded_inputs: int

    @property
    def growth(self) -> float:
        """The additional arithmetic and weights of the padded layer."""
        return self.padded_outputs * self.padded_inputs / (self.outputs * self.inputs)

    @property
    def added(self) -> float:
        """Further parameters."""
        return self.module.parameter_count * (self.growth - 1)

    def factor(self, element_bytes: int) -> Interval:
        """Time of its products when padded over their time now."""
        wanted = EFFICIENT_FROM[element_bytes]
        aligned = self.outputs % wanted == 0 and self.inputs % wanted == 0
        gain = _ALIGNED_FURTHER if aligned else _UNALIGNED
        # Tiles are larger than what is added, so that at best no further tile is computed.
        return Interval(gain.value, gain.low, gain.high * self.growth)


def padded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def odd_layers(profile: Profile, multiple: int) -> tuple[Odd, ...]:
    """The layers of the model that have a size of their own which is no multiple, and no smaller than one.

    Those are numbers of outputs, and with them the inputs of the layers that take them in: sizes that come with the
    data (features, colours) stay, and so do embeddings whose rows no layer predicts.
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
    """Of the numbers that matrix units multiply here: 2, with TF32 4; 0 where none are used, or it is not known."""
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
    """Outputs and inputs of a linear layer or convolution; None of any other module."""
    outputs, inputs = _size(module, _OUTPUTS), _size(module, _INPUTS)
    return None if outputs is None or inputs is None else (outputs, inputs)
