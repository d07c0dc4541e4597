"""Shows when a backward pass as a parallel scan is faster, by the model of ``scan_backward`` on several networks.

    python benchmarks/scan_backward.py

The networks are those of BPPSA (Wang, Bai, Pekhimenko, MLSys 2020): VGG-11 on images of 32 x 32, retrained after
pruning, and a recurrent network of 20 units with 16 samples. The baseline is the usual pass, layer after layer with
dense kernels. Nothing is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf

from machine import Machine
from result_file import table, write

from skyline.predict.gpus import gpu_named
from skyline.whatif.catalogue.parallel.scan_backward import device_of
from skyline.whatif.cost.jacobian_scan import Jacobian, ScanDevice, best_depth, matrix_bytes, steps_in

DENSITIES = (1.0, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
VGG_11 = (
    (64, 128, 16),
    (128, 256, 8),
    (256, 256, 8),
    (256, 512, 4),
    (512, 512, 4),
    (512, 512, 2),
    (512, 512, 2),
)
"""Channels in and out, and the side of the image, from the second convolution on."""
LENGTHS = (10, 100, 1000, 10_000)
UNITS, SAMPLES = 20, 16
GPU = "V100-32GB"


@dataclass(frozen=True, slots=True)
class Row:
    """A network: the steps of both passes, their sequential arithmetic in MFLOP per sample, and their time in µs."""

    network: str
    devices: int
    steps: tuple[int, int]
    mflop: tuple[float, float]
    us: tuple[float, float]
    matrices_mb: float


def vgg(density: float, rows: int) -> list[Jacobian]:
    """The layers of VGG-11 after the first, with a share of their weights."""
    layers: list[Jacobian] = []
    for inputs, outputs, side in VGG_11:
        numbers = side * side
        operator = outputs * numbers * 9 * inputs
        layers.append(Jacobian.of_layer(inputs * numbers, outputs * numbers, operator, rows, density))
    return [*layers, Jacobian.of_layer(512, 10, 5120, rows, density)]


def row(network: str, chain: Sequence[Jacobian], devices: int) -> Row:
    """Both passes of a network."""
    arithmetic = ScanDevice(1.0, 1.0, inf, 0.0, devices).passes_us(chain)
    on_gpu = device_of(gpu_named(GPU), devices).passes_us(chain)
    depth = best_depth(arithmetic if network.startswith("VGG") else on_gpu)
    rows = chain[0].rows
    return Row(
        network,
        devices,
        (len(chain), steps_in(len(chain), depth)),
        (arithmetic[0] / rows / 1e6, arithmetic[depth] / rows / 1e6),
        (on_gpu[0], on_gpu[depth]),
        matrix_bytes(chain, depth) / 1e6,
    )


def main() -> int:
    """Compute the rows, and write the page."""
    machine = Machine.here()
    rows = [row(f"VGG-11, {100 * one:g} % of its weights", vgg(one, 1), 8) for one in DENSITIES]
    rows += [
        row(f"VGG-11, {100 * one:g} %, {SAMPLES} images", vgg(one, SAMPLES), 8) for one in DENSITIES[-3:]
    ]
    unit = Jacobian.of_layer(UNITS, UNITS, UNITS * UNITS, SAMPLES, 1.0)
    rows += [row(f"recurrent, {one:,} steps", [unit] * one, 1) for one in LENGTHS]
    wide = Jacobian.of_layer(4096, 4096, 4096 * 4096, 64, 1.0)
    rows.append(row("12 linear layers of 4096, 64 samples", [wide] * 12, 12))
    head = ("network", "devices", "steps", "MFLOP in a row", f"µs on {GPU}", "matrices, MB")
    cells = [
        (
            one.network,
            str(one.devices),
            f"{one.steps[0]:,} → {one.steps[1]:,}",
            f"{one.mflop[0]:,.3g} → {one.mflop[1]:,.5g}",
            f"{one.us[0]:,.0f} → {one.us[1]:,.0f}",
            f"{one.matrices_mb:,.4g}",
        )
        for one in rows
    ]
    body = (
        "Each cell shows layer after layer → as a scan with the best number of levels. *MFLOP in a row* is "
        "the arithmetic of a sample on the longest path. Products that skip zeros count at the rate of dense "
        "ones. *µs* uses the rates of the what-if: 30 % of the peak for dense products, 2 % for sparse ones, "
        "and 8 µs per step. Matrices are read from memory for each sample, and are those of all samples. "
        "Weights of VGG-11 are pruned at random. Nothing was measured.\n\n"
        f"{table(head, cells)}"
    )
    print(write("scan_backward", "The backward pass as a scan", machine, body, [asdict(one) for one in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
