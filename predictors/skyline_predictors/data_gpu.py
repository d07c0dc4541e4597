"""The GPUs that measured data name: from the table of GPUs, or else from the data's own figures."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named

FILE = "devices.csv"


@cache
def gpu_of(name: str, folder: Path | None = None) -> GpuSpec:
    """The GPU that the data in ``folder`` call ``name``.

    The full name in the data takes precedence, because a short name does not say which board is meant.

    Raises:
        UsageError: neither the table of GPUs nor the data know it.
    """
    row = _rows(folder).get(name, {}) if folder is not None else {}
    for candidate in filter(None, (row.get("device_name"), _SHORT.get(name), name)):
        try:
            return gpu_named(candidate)
        except UsageError:
            continue
    if row:
        return _of_row(name, row)
    raise UsageError(
        f"no figures of the GPU {name!r} are known",
        hint=f"Add a row for it to {FILE} in the folder of the data, or see what `skyline gpus` lists.",
    )


_SHORT = {
    "A100-40": "A100-40GB-PCIe",
    "A100-SXM-40": "A100-40GB",
    "A100-80": "A100-80GB",
}
"""GPUs by their names in the public measurements, where these names mean other boards than in the table of GPUs."""


@cache
def _rows(folder: Path) -> dict[str, dict[str, str]]:
    try:
        with (folder / FILE).open(encoding="utf-8", newline="") as file:
            return {row.get("gpu", ""): row for row in csv.DictReader(file)}
    except FileNotFoundError:
        return {}


def _of_row(name: str, row: Mapping[str, str]) -> GpuSpec:
    def number(column: str) -> float:
        try:
            return float(row[column])
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                f"the GPU {name!r} has no number in column {column!r} of {FILE}",
                hint="Fill in the figures of its data sheet.",
            ) from None

    full_name = row.get("device_name") or name
    return GpuSpec(
        name=name,
        full_name=full_name,
        vendor="AMD" if full_name.upper().startswith("AMD") else "NVIDIA",
        architecture="",
        memory_bytes=int(number("mem_gb") * 2**30),
        bandwidth_gb_s=number("mem_bw_gbs"),
        multiprocessors=int(number("num_sm")),
        clock_mhz=int(number("clock_mhz")),
        l2_bytes=int(number("l2_mb") * 2**20),
        compute_capability=(8, 0),
        # The data do not state the power. With 0, no power limit is applied.
        board_power_watts=0,
        tflops_fp32=max(number("fp32_gflops"), float(row.get("fp32_matrix_gflops") or 0)) / 1e3,
    )
