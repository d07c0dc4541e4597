"""The GPUs that times can be predicted for, from the makers' public data sheets."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from skyline.predict.gpu_spec import GpuSpec

_MIB = 1 << 20


class _DeviceRow(msgspec.Struct, forbid_unknown_fields=True):
    """One row of the table as it is written: memory and cache in MiB, everything else as in ``GpuSpec``."""

    name: str
    full_name: str
    vendor: str
    architecture: str
    memory_mib: int
    bandwidth_gb_s: float
    multiprocessors: int
    clock_mhz: int
    l2_mib: float
    compute_capability: tuple[int, int]
    board_power_watts: int
    tflops_fp64: float | None
    tflops_fp32: float
    tflops_tf32: float | None
    tflops_fp16: float | None
    tflops_bf16: float | None
    tflops_fp8: float | None
    link_gb_s: float | None
    pcie_gb_s: float
    aliases: tuple[str, ...]
    fp16_on_tensor_cores: bool
    source: str


@cache
def gpus() -> tuple[GpuSpec, ...]:
    """All of them, oldest architecture first, NVIDIA before AMD."""
    text = files("skyline_predictors").joinpath("devices.json").read_bytes()
    rows = msgspec.json.decode(text, type=list[_DeviceRow])
    return tuple(
        GpuSpec(
            memory_bytes=row.memory_mib * _MIB,
            l2_bytes=round(row.l2_mib * _MIB),
            **{
                name: getattr(row, name)
                for name in row.__struct_fields__
                if name not in ("memory_mib", "l2_mib")
            },
        )
        for row in rows
    )
