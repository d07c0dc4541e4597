"""The use of a GPU by several products together: their tiles, and the waves in which multiprocessors take them."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import TileUse
from skyline.predict.registry import tiling
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class ProductUse:
    """A product with its weight in a sum, such as its arithmetic, and its use of the GPU."""

    weight: float
    shape: OperatorShape
    use: TileUse


def product_uses(weighed: Sequence[tuple[float, OperatorShape]], device: GpuSpec) -> tuple[ProductUse, ...]:
    """The use of the GPU by each product among the operators. Empty on a processor, or if no predictor models tiles."""
    predictor = tiling()
    if device.is_processor or predictor is None or not weighed:
        return ()
    distinct = list(dict.fromkeys(shape for _, shape in weighed))
    uses = dict(zip(distinct, predictor.tile_use(distinct, device), strict=True))
    return tuple(
        ProductUse(weight, shape, use) for weight, shape in weighed if (use := uses[shape]) is not None
    )


def tile_shares(used: Sequence[ProductUse]) -> TileUse | None:
    """The weighted use by all products. None if no product has a weight."""
    total = sum(one.weight for one in used)
    if not total:
        return None
    computed = sum(one.weight / one.use.filled for one in used)
    waited = sum(one.weight / one.use.busy for one in used)
    return TileUse(total / computed, total / waited)
