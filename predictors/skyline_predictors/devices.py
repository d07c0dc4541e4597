"""The GPUs that times can be predicted for, from the makers' public data sheets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from skyline.predict.gpu_spec import GpuSpec

TABLE = "data_sheets.json"
_MIB = 1 << 20


@cache
def gpus() -> tuple[GpuSpec, ...]:
    """All GPUs, oldest architecture first, NVIDIA before AMD."""
    text = files("skyline_predictors").joinpath(TABLE).read_bytes()
    return tuple(map(_spec, msgspec.json.decode(text, type=list[dict[str, Any]])))


def _spec(row: dict[str, Any]) -> GpuSpec:
    """The GPU of a row. Memory and cache are in MiB, everything else as in ``GpuSpec``."""
    sizes = {f"{name}_bytes": round(row.pop(f"{name}_mib") * _MIB) for name in ("memory", "l2")}
    return msgspec.convert({**row, **sizes}, GpuSpec)
