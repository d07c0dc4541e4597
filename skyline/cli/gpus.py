"""``skyline gpus``: the GPUs that times can be predicted for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from skyline.cli.command_line import parser
from skyline.cli.streams import encoded, tell, write_data
from skyline.errors import ExitCode
from skyline.predict.gpu_spec import GpuSpec

if TYPE_CHECKING:
    from skyline.predict.prices import Price

GPUS_SCHEMA = "skyline.gpus/1"
_TITLES = (
    "name",
    "GPU",
    "memory",
    "GB/s",
    "SMs",
    "MHz",
    "L2",
    "W",
    "link",
    "fp64",
    "fp32",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
)
_LEFT = ("name", "GPU")
_SPARED = ("link", "fp64", "L2", "MHz", "SMs", "GPU", "W")
"""Columns that a narrow terminal omits, in this order; ``--json`` has all of them."""
_UNITS = (
    "memory in GB (10^9 bytes) as PyTorch reports it, GB/s of its bandwidth, L2 in MB, W: limit of the board, link to "
    "other GPUs in GB/s both ways, fp64 to fp8 in TFLOP/s (dense); -: none. skyline gpus NAME names the source."
)
_UNLIMITED = 1000


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "gpus",
        "[options] [NAME]",
        "List the GPUs that skyline profile --gpu NAME and skyline devices can predict,\n"
        "with the figures of their data sheets. With NAME: one GPU, its source and its\n"
        "price per hour. Your own GPUs go into a file: docs/devices.md.",
        "  skyline gpus\n  skyline gpus a100\n  skyline profile --gpu h100 train.py",
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="one GPU, in any usual spelling")
    command.add_argument(
        "--json", metavar="FILE", help="write the table as JSON ('-': to stdout, without other output)"
    )
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)
    from skyline.predict.gpus import gpu_named, gpus
    from skyline.predict.prices import prices_of

    chosen = (gpu_named(options.name),) if options.name else gpus()
    if options.json is not None:
        import msgspec

        rows = [{**msgspec.to_builtins(spec), "prices": prices_of(spec)} for spec in chosen]
        write_data(options.json, encoded({"schema": GPUS_SCHEMA, "gpus": rows}))
    if options.json != "-":
        _print(chosen)
        if options.name:
            _print_one(chosen[0], prices_of(chosen[0]))
    return int(ExitCode.OK)


def _print(chosen: Sequence[GpuSpec]) -> None:
    rows = [_TITLES, *(_cells(spec) for spec in chosen)]
    widths = {title: max(len(row[column]) for row in rows) for column, title in enumerate(_TITLES)}
    room = get_terminal_size((_UNLIMITED, 1)).columns
    for title in _SPARED:
        if sum(widths.values()) + 2 * (len(widths) - 1) > room:
            del widths[title]
    for row in rows:
        cells = [
            cell.ljust(widths[title]) if title in _LEFT else cell.rjust(widths[title])
            for title, cell in zip(_TITLES, row, strict=True)
            if title in widths
        ]
        tell("  ".join(cells).rstrip())
    own = " *: from your own file." if any(spec.own for spec in chosen) else ""
    tell()
    _print_wrapped(_UNITS + own)


def _print_one(spec: GpuSpec, prices: Sequence[Price]) -> None:
    tell()
    _print_wrapped(f"{spec.full_name} ({spec.vendor} {spec.architecture}). Source: {spec.source}.")
    for price in prices:
        place = " ".join(part for part in (price.provider, price.instance, price.region) if part)
        share = f", ${price.usd_per_gpu_hour:.2f} for each of its {price.gpus}" if price.gpus > 1 else ""
        _print_wrapped(f"${price.usd_per_hour:g} an hour{share}: {place} ({_of(price)})")
    if not prices:
        _print_wrapped("Its price is not known; docs/devices.md explains how to add one.")


def _of(price: Price) -> str:
    return "; ".join(part for part in (price.date, price.source) if part)


def _print_wrapped(text: str) -> None:
    for line in wrap(text, min(get_terminal_size((_UNLIMITED, 1)).columns, 100), break_on_hyphens=False):
        tell(line)


def _cells(spec: GpuSpec) -> tuple[str, ...]:
    peaks = (
        spec.tflops_fp64,
        spec.tflops_fp32,
        spec.tflops_tf32,
        spec.tflops_fp16,
        spec.tflops_bf16,
        spec.tflops_fp8,
    )
    return (
        f"{spec.name} *" if spec.own else spec.name,
        spec.full_name,
        f"{spec.memory_bytes / 1e9:.1f}",
        f"{spec.bandwidth_gb_s:.0f}",
        str(spec.multiprocessors),
        str(spec.clock_mhz),
        f"{spec.l2_bytes / 1e6:.3g}",
        str(spec.board_power_watts),
        "-" if spec.link_gb_s is None else f"{spec.link_gb_s:g}",
        *("-" if peak is None else f"{peak:g}" for peak in peaks),
    )
