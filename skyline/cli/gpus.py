"""``skyline gpus``: the GPUs that times can be predicted for."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

from skyline.cli.command_line import parser
from skyline.cli.streams import write_data
from skyline.errors import ExitCode
from skyline.predict.gpu_spec import GpuSpec

GPUS_SCHEMA = "skyline.gpus/1"
_TITLES = ("name", "GPU", "memory", "GB/s", "SMs", "MHz", "L2", "fp32", "tf32", "fp16", "bf16", "fp8")
_SPARED = ("L2", "MHz", "SMs", "GPU")
"""What a narrow terminal goes without, in this order; ``--json`` has all of it."""
_UNITS = "memory in GiB, GB/s of its bandwidth, L2 in MiB, fp32 to fp8 in TFLOP/s (dense); -: none"
_UNLIMITED = 1000


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    command = parser(
        "gpus",
        "[options] [NAME]",
        "The GPUs that skyline profile --gpu NAME can predict for, with the figures of\n"
        "their data sheets. With NAME, that one alone.",
        "  skyline gpus\n  skyline gpus a100\n  skyline profile --gpu h100 train.py",
    )
    command.add_argument("name", metavar="NAME", nargs="?", help="one GPU, however you spell it")
    command.add_argument("--json", metavar="FILE", help="write the table as JSON ('-': to stdout, alone)")
    options = command.parse_args(arguments)
    from skyline.predict.gpus import gpu_named, gpus

    chosen = (gpu_named(options.name),) if options.name else gpus()
    if options.json is not None:
        import msgspec

        document = {"schema": GPUS_SCHEMA, "gpus": [msgspec.to_builtins(spec) for spec in chosen]}
        write_data(options.json, msgspec.json.encode(document) + b"\n")
    if options.json != "-":
        _print(chosen)
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
            cell.ljust(widths[title]) if title in _TITLES[:2] else cell.rjust(widths[title])
            for title, cell in zip(_TITLES, row, strict=True)
            if title in widths
        ]
        print("  ".join(cells).rstrip())
    print()
    for line in wrap(_UNITS, min(room, 100)):
        print(line)


def _cells(spec: GpuSpec) -> tuple[str, ...]:
    peaks = (spec.tflops_fp32, spec.tflops_tf32, spec.tflops_fp16, spec.tflops_bf16, spec.tflops_fp8)
    return (
        spec.name,
        spec.full_name,
        f"{spec.memory_bytes / 2**30:.1f}",
        f"{spec.bandwidth_gb_s:.0f}",
        str(spec.multiprocessors),
        str(spec.clock_mhz),
        str(spec.l2_bytes >> 20),
        *("-" if peak is None else f"{peak:g}" for peak in peaks),
    )
