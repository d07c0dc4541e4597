"""``skyline ranks``: several ranks of one job, which ranks wait for which, and the cost of a straggler."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from skyline.cli.command_line import parser
from skyline.cli.numbers import natural, positive
from skyline.cli.streams import deliver, say, write_page
from skyline.errors import ExitCode, UsageError
from skyline.whatif.question import Choice

_EXAMPLES = """\
  skyline ranks traces/                      a folder with one PyTorch profiler trace per rank
  skyline ranks rank0.json.gz rank1.json.gz  these
  skyline ranks traces/ --scale nccl=0.5     the effect of a network of twice the speed
  skyline ranks traces/ --cluster tcp://10.0.0.5:8786"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "ranks",
        "[options] FOLDER|FILE...",
        "Show how the ranks of a distributed job spend their time, which rank the others wait for, and the gain\n"
        "if that rank were as fast. Reads traces of PyTorch's profiler, one per rank.",
        _EXAMPLES,
    )
    command.add_argument("traces", metavar="FOLDER|FILE", nargs="+")
    command.add_argument(
        "--json", metavar="FILE", help="write the report as JSON ('-': to stdout, without other output)"
    )
    command.add_argument("--html", metavar="FILE", help="write the page as HTML")
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="read N traces at a time (default: as many as there are cores and memory for)",
    )
    where.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="read them on the workers of this Dask scheduler, which can read the same files",
    )
    command.add_argument(
        "--scale",
        type=_scaled,
        action="append",
        default=[],
        metavar="NAME=FACTOR",
        help="predict the effect if tasks with NAME in their names took FACTOR times as long (repeatable)",
    )
    command.add_argument(
        "--whatif",
        type=Choice.parse,
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="predict this what-if on every rank, such as amp=bf16; see skyline whatif (repeatable)",
    )
    command.add_argument(
        "--rank",
        type=natural,
        action="append",
        metavar="RANK",
        help="with --scale: on this rank only (repeatable)",
    )
    command.add_argument("--quiet", action="store_true", help="print no notes on stderr")
    return command


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse_args(arguments)

    from skyline.job.job import job_of
    from skyline.job.rank_reader import RankReader, ScaleNamed, trace_files
    from skyline.job.sub_model import sub_model
    from skyline.job.workers import fitting_processes, on_this_machine
    from skyline.report.pages.ranks import ranks_page
    from skyline.report.ranks import ranks_report
    from skyline.whatif.recorded import RankWhatIf

    if options.rank is not None and not options.scale + options.whatif:
        raise UsageError("--rank needs --scale: it names the rank to scale", hint="Add --scale NAME=FACTOR.")
    if options.scale and options.whatif:
        raise UsageError("--scale and --whatif cannot be combined", hint="Use one of them at a time.")
    files = trace_files(options.traces)
    if options.cluster is not None:
        from skyline.job.workers import on_cluster

        readers = on_cluster(options.cluster)
        say(f"skyline: reading {len(files)} traces on {options.cluster}", quiet=options.quiet)
    else:
        processes = min(len(files), options.processes or fitting_processes(files))
        readers = on_this_machine(processes)
        if processes > 1:
            say(f"skyline: reading {len(files)} traces, {processes} at a time", quiet=options.quiet)
    question = ScaleNamed(tuple(options.scale)) if options.scale else None
    asked = RankWhatIf(tuple(options.whatif)) if options.whatif else None
    reader = RankReader(question, None if options.rank is None else tuple(options.rank), asked)
    with readers as workers:
        job = job_of(workers.map(reader, [str(path) for path in files]))
        smaller = sub_model(job, workers)
    report = ranks_report(job, _asked(options), smaller)
    deliver(report, lambda: ranks_page(report), options.json)
    write_page(options.html, ranks_page(report), "Ranks of a job", "ranks", report)
    return int(ExitCode.OK)


def _asked(options: argparse.Namespace) -> str:
    """The what-if as typed."""
    on = "".join(f" on rank {rank}" for rank in options.rank or ())
    scaled = [f"{name} x{factor:g}" for name, factor in options.scale]
    return ", ".join([*scaled, *map(str, options.whatif)]) + on


def _scaled(text: str) -> tuple[str, float]:
    name, _, factor = text.rpartition("=")
    value = float(factor)
    if not name or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be a name and a factor, for example gemm=0.5")
    return name, value
