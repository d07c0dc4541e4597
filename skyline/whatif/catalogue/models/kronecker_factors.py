"""Weights as Kronecker products of two small ones: their structure, and the layers that can have them."""

from __future__ import annotations

from dataclasses import replace

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.whatif.constant import Constant
from skyline.whatif.cost.factored_layers import OneWeight, Product, Replaced
from skyline.whatif.cost.factored_linear import linear_layers
from skyline.whatif.question import whole_number

BLOCKS = tuple(2**power for power in range(1, 8))
"""Rows and columns of the smaller factor that are offered."""
_MOST_FREE = Constant.at(0.5, "an assumption: with more free numbers the added matrix is hardly sparse")


@dataclass(frozen=True, slots=True)
class Structure:
    """The number of rows and columns of the first factor, and the share of added free numbers (doping)."""

    blocks: int
    free: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Structure:
        """The structure described by ``4`` or ``4:0.01``. Raises UsageError for anything else."""
        first, colon, second = text.partition(":")
        blocks = whole_number("kronecker", first)
        try:
            free = float(second) if colon else 0.0
        except ValueError:
            free = -1.0
        if blocks < BLOCKS[0] or not 0 <= free <= _MOST_FREE.value or (colon and not free):
            raise UsageError(
                f"kronecker={text}: write a whole number of at least 2, and optionally a colon and a share "
                "of free numbers",
                hint="For example kronecker=4, or kronecker=4:0.01.",
            )
        return cls(blocks, free)

    def numbers(self, rows: int, columns: int) -> int:
        """The number of parameters that replace a weight of this size."""
        return self.blocks**2 + rows * columns // self.blocks**2 + self.free_numbers(rows * columns)

    def free_numbers(self, count: int) -> int:
        """The number of free numbers in a weight of ``count`` numbers."""
        return max(1, round(self.free * count)) if self.free else 0

    def divides(self, *sizes: int) -> bool:
        """True if the sizes divide into ``blocks`` equal parts."""
        return all(size % self.blocks == 0 and size > self.blocks for size in sizes)


@dataclass(frozen=True, slots=True)
class KroneckerLinear(OneWeight):
    """A linear layer; with free numbers, each pass computes its whole weight."""

    structure: Structure

    @property
    def after(self) -> int:
        """The number of elements in the factors, and of free numbers."""
        return self.structure.numbers(self.outputs, self.inputs)

    @property
    def largest(self) -> int:
        """The number of elements in the larger factor."""
        return max(self.structure.blocks**2, self.before // self.structure.blocks**2)

    @property
    def is_made_whole(self) -> bool:
        """True if numbers are free: a product takes one matrix."""
        return self.structure.free > 0

    @property
    def more_tensors(self) -> int:
        """One tensor for the second factor, and one for the free numbers."""
        return 2 if self.structure.free else 1

    def products(self, rows: int) -> tuple[Product, ...]:
        """The product with the larger factor for each block, then the product with the smaller one."""
        blocks = self.structure.blocks
        inner, columns = self.inputs // blocks, self.outputs // blocks
        return Product(rows * blocks, inner, columns), Product(rows * columns, blocks, blocks)


@dataclass(frozen=True, slots=True)
class LargerFactor(KroneckerLinear):
    """The larger factor of a layer, whose time follows from its arithmetic on a CPU, too."""

    @classmethod
    def of(cls, layer: KroneckerLinear) -> LargerFactor:
        """The larger factor of a layer."""
        return cls(layer.module, layer.inputs, layer.outputs, layer.structure)

    def products(self, rows: int) -> tuple[Product, ...]:
        """The product with the larger factor."""
        return KroneckerLinear.products(self, rows)[:1]


@dataclass(frozen=True, slots=True)
class KroneckerLstm(Replaced):
    """An LSTM with weights of (rows, columns); each pass computes the whole weights."""

    weights: tuple[tuple[int, int], ...]
    structure: Structure

    @property
    def before(self) -> int:
        """The number of elements in the present weights."""
        return sum(rows * columns for rows, columns in self.weights)

    @property
    def after(self) -> int:
        """The number of elements in the factors, and of free numbers."""
        return sum(self.structure.numbers(*size) for size in self.weights)

    @property
    def largest(self) -> int:
        """The number of elements in the largest factor."""
        return max(rows * columns for rows, columns in self.weights) // self.structure.blocks**2

    @property
    def is_made_whole(self) -> bool:
        """Always: the recurrent operator takes whole matrices."""
        return True

    @property
    def more_tensors(self) -> int:
        """For each weight, one tensor for the second factor and one for the free numbers."""
        return len(self.weights) * (2 if self.structure.free else 1)


Layer = KroneckerLinear | KroneckerLstm


def kronecker_layers(profile: Profile, structure: Structure) -> tuple[Layer, ...]:
    """The layers whose sizes divide into the structure's blocks, and whose weights become smaller."""
    linear = (
        KroneckerLinear(one.module, one.inputs, one.outputs, structure)
        for one in linear_layers(profile)
        if structure.divides(one.inputs, one.outputs)
    )
    recurrent = (
        replace(one, structure=structure)
        for one in lstms(profile)
        if all(structure.divides(*size) for size in one.weights)
    )
    return tuple(one for one in (*linear, *recurrent) if one.less > 0)


def lstms(profile: Profile) -> tuple[KroneckerLstm, ...]:
    """The trainable LSTMs, with a placeholder structure."""
    return tuple(
        KroneckerLstm(module, weights, Structure(1))
        for module in profile.modules
        if module.trainable
        and module.calls_per_iteration > 0
        and (weights := module.lstm_weights)
        # An LSTM that already has Kronecker products has its weights elsewhere.
        and module.parameter_count >= sum(rows * columns for rows, columns in weights)
    )
