"""``skyline plan``: parallel strategies for a model on a described cluster, ranked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skyline.cli.capture_options import add_options
from skyline.cli.command_line import parse_after_names, parser
from skyline.cli.numbers import positive
from skyline.cli.streams import deliver, say, write_data, write_page
from skyline.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from skyline.plan.cluster import ClusterSpec
    from skyline.plan.layers import ModelWork
    from skyline.plan.script_layers import TracedProgram
    from skyline.report.plan import Plan

_ALL_ROWS = 1000
"""More layouts than a search finds, because the best layout that can be written may be far down the list."""
_EXAMPLES = """\
  skyline plan --model llama3-8b --cluster p5.48xlarge --gpus 8..64 --tokens 15B
  skyline plan train.py --cluster dgx-a100 --gpus 8 --batch-size 16
  skyline plan train.py --cluster g4dn.12xlarge,p4d.24xlarge --samples 10M --deadline 3d
  skyline plan --model gpt2 --cluster mine.toml --budget '$500' --deadline 3d --tokens 10B
  skyline plan --model llama3-70b --cluster dgx-h100 --gpus 256 --perfetto 1 step.json.gz
  skyline plan --preset academic-bert --cluster g4dn.12xlarge --nodes 8"""


def make_parser() -> argparse.ArgumentParser:
    command = parser(
        "plan",
        "[options] (SCRIPT | PROFILE | --model NAME) --cluster NAME [ARGS...]\n"
        "       skyline plan --preset NAME [--without MEASURE,...] [--cluster NAME]",
        "Rank parallel strategies for a model on a cluster that need not be present: step\n"
        "time with its range, throughput, memory of a rank, time and cost. The model is a\n"
        "described transformer, or a script, which is traced by shape for the cluster's\n"
        "GPU. Clusters are described in TOML: docs/plan.md.",
        _EXAMPLES,
    )
    add_options(command)
    # Here --budget is an amount of money. The time budget of a profile's trials keeps its default.
    command.conflict_handler = "resolve"
    command.set_defaults(budget=None)
    _add_own(command)
    return command


def run(arguments: Sequence[str]) -> int:
    options, script_arguments = parse_after_names(arguments, make_parser(), names=False)
    if options.nodes and options.gpus:
        raise UsageError("--nodes and --gpus exclude each other", hint="Use only one of them.")
    if options.preset is not None:
        return run_preset(options)
    if options.without:
        raise UsageError("--without needs --preset", hint="Example: --preset academic-bert --without amp")
    if options.cluster is None:
        raise UsageError(
            "--cluster is missing", hint="Example: skyline plan --model llama3-8b --cluster dgx-h100"
        )
    if (options.source is None) == (options.model is None):
        raise UsageError(
            "a script or --model is missing",
            hint="Example: skyline plan --model llama3-8b --cluster dgx-h100",
        )
    names = [name for name in options.cluster.split(",") if name]
    if len(names) > 1:
        return _compared(options, names, script_arguments)
    from skyline.plan.cluster import cluster_named
    from skyline.report.pages.plan import plan_page

    model = _model(options, cluster_named(options.cluster), script_arguments)
    made = _planned(options, options.cluster, model, options.rows)
    report = made.report
    if options.perfetto:
        number, target = options.perfetto
        write_data(target, made.perfetto(int(number) if number.isdecimal() else 0))
        say(
            f"skyline: the timeline of row {number} is in {target}; open it in ui.perfetto.dev",
            quiet=options.quiet,
        )
    deliver(report, lambda: plan_page(report), options.json)
    write_page(options.html, plan_page(report), f"Plan on {options.cluster}", "plan", report)
    return int(ExitCode.OK)


def _planned(
    options: argparse.Namespace, name: str, traced: tuple[ModelWork, TracedProgram | None], rows: int
) -> Plan:
    """The plan for one cluster. Raises UsageError if there can be none."""
    from skyline.plan.cluster import cluster_named
    from skyline.plan.search import Request
    from skyline.plan.strategy import Precision
    from skyline.predict.registry import predictor_for
    from skyline.report.plan import Terms, plan

    cluster = cluster_named(name)
    gpus = str(options.nodes * cluster.gpus_per_node) if options.nodes else options.gpus or ""
    sizes = cluster.sizes(gpus)
    terms = Terms.read(
        options.tokens or options.samples or "", options.budget_usd or "", options.deadline or "", cluster
    )
    model, program = traced
    request = Request(
        Precision(options.precision),
        options.global_batch,
        None if program is None else program.batch,
        options.compiled,
        1 if program is None else program.passes,
        options.topk,
        options.asynchronous,
    )
    return plan(model, cluster, sizes, predictor_for(cluster.gpu), request, terms, rows)


def _compared(
    options: argparse.Namespace, names: Sequence[str], script_arguments: tuple[str, ...] | None
) -> int:
    """Print the best strategy on each of several clusters. A cluster without a plan gets a line with the reason."""
    from skyline.plan.cluster import cluster_named
    from skyline.report.cluster_offers import ClusterOffer, no_offer, offers_of
    from skyline.report.pages.cluster_offers import offers_page
    from skyline.report.plan_report import PlanReport

    if options.perfetto:
        raise UsageError("--perfetto writes a row of one cluster", hint="Name one cluster with --cluster.")
    clusters = [cluster_named(name) for name in names]
    reports: list[PlanReport] = []
    failed: list[ClusterOffer] = []
    # Shapes are the same on every GPU, so the trace for the first cluster serves all clusters.
    traced = _model(options, clusters[0], script_arguments)
    for name, cluster in zip(names, clusters, strict=True):
        try:
            reports.append(_planned(options, name, traced, _ALL_ROWS).report)
        except UsageError as error:
            if len(failed) + 1 == len(clusters):
                raise  # none is left: the last reason is shown whole
            failed.append(no_offer(cluster.name, cluster.gpu.name, error.message))
    found = offers_of(reports, failed)
    page = offers_page(found, options.source, script_arguments or ())
    deliver(found, lambda: page, options.json)
    write_page(options.html, page, f"Plans on {options.cluster}", "plans", found)
    return int(ExitCode.OK)


def _add_own(command: argparse.ArgumentParser) -> None:
    # Options that are added from here on replace earlier options of the same name.
    group = command.add_argument_group("planning")
    group.add_argument(
        "--cluster",
        metavar="NAME|FILE[,...]",
        help="a described cluster, or a .toml file; several, separated by commas, are compared",
    )
    group.add_argument(
        "--model", metavar="NAME|FILE", help="a transformer that Skyline knows by name, or a .json file"
    )
    group.add_argument(
        "--preset",
        metavar="NAME",
        help="the measures of a published training, timed one by one and together:\n"
        "academic-bert; on its own cluster unless --cluster names another",
    )
    group.add_argument("--without", metavar="MEASURE[,...]", help="measures of the preset to leave out")
    group.add_argument(
        "--sequence", type=positive, metavar="N", help="sequence length of the model of --model"
    )
    group.add_argument("--gpus", metavar="N|A..B", help="how many GPUs (default: those of the description)")
    group.add_argument("--nodes", type=positive, metavar="N", help="how many nodes, in place of --gpus")
    group.add_argument("--global-batch", type=positive, metavar="N", help="samples per step, over all ranks")
    group.add_argument(
        "--precision",
        choices=("amp_bf16", "bf16", "float8", "amp_fp16", "fp32"),
        default="amp_bf16",
        help="number formats (default: amp_bf16)",
    )
    group.add_argument(
        "--compiled", action="store_true", help="elementwise operators are fused, as by torch.compile"
    )
    group.add_argument(
        "--topk",
        type=_share,
        metavar="RATIO",
        help="also search strategies that exchange this share of the gradients, such as 0.01:\n"
        "they change convergence",
    )
    group.add_argument(
        "--asynchronous",
        action="store_true",
        help="also search pipelines without a flush at the end of a step: they change\n"
        "the course of the training",
    )
    group.add_argument("--tokens", metavar="N", help="tokens to train on, such as 300B")
    group.add_argument("--samples", metavar="N", help="samples to train on, for a script")
    group.add_argument(
        "--budget",
        dest="budget_usd",
        metavar="USD",
        help="highest cost of the training, such as '$5000'",
    )
    group.add_argument("--deadline", metavar="TIME", help="longest time of the training, such as 3d")
    group.add_argument(
        "--rows", type=positive, default=10, metavar="N", help="rows of the table (default: 10)"
    )
    group.add_argument(
        "--perfetto", nargs=2, metavar=("ROW", "FILE"), help="write the timeline of a row for ui.perfetto.dev"
    )
    group.add_argument(
        "--fresh", action="store_true", help="trace the script again, even if its latest trace is valid"
    )
    group.add_argument(
        "--json", metavar="FILE", help="write the table as JSON ('-': to stdout, without other output)"
    )
    group.add_argument("--html", metavar="FILE", help="write the page as HTML")
    command.add_argument("source", metavar="SCRIPT", nargs="?", help="a script or a saved profile")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 1e-6 <= share <= 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0.000001 and 0.5")
    return share


def _model(
    options: argparse.Namespace, cluster: ClusterSpec, arguments: tuple[str, ...] | None
) -> tuple[ModelWork, TracedProgram | None]:
    """The model, and the script's program if it is one."""
    if options.model is not None:
        from skyline.plan.transformer import transformer_named

        if arguments is not None:
            raise UsageError("--model takes no arguments of a script")
        if options.samples:
            raise UsageError("--samples is for scripts", hint="Use --tokens with --model.")
        return transformer_named(options.model, options.sequence), None
    if options.tokens:
        raise UsageError("--tokens needs --model", hint="Use --samples with a script.")
    if options.sequence is not None:
        raise UsageError("--sequence needs --model", hint="The script's own sequence length is traced.")
    from skyline.cli.subject import subject_of
    from skyline.plan.script_layers import traced_program

    options.gpu = options.gpu or cluster.gpu.name
    program = traced_program(subject_of(options.source, arguments, options).profile)
    return program, program


_OTHER_QUESTIONS = {
    "source": "a script",
    "model": "--model",
    "sequence": "--sequence",
    "global_batch": "--global-batch",
    "topk": "--topk",
    "asynchronous": "--asynchronous",
    "compiled": "--compiled",
    "samples": "--samples",
    "budget_usd": "--budget",
    "deadline": "--deadline",
    "perfetto": "--perfetto",
}
_PRECISION = "amp_bf16"
"""The default of ``--precision``."""


def run_preset(options: argparse.Namespace) -> int:
    """Print the measures of a preset on its own cluster, or on the cluster of ``--cluster``."""
    from skyline.plan.cluster import cluster_named
    from skyline.plan.money import read_count
    from skyline.plan.presets import preset_named
    from skyline.predict.registry import predictor_for
    from skyline.report.pages.preset import preset_page
    from skyline.report.preset_report import preset_report

    for name, words in _OTHER_QUESTIONS.items():
        if getattr(options, name):
            raise UsageError(
                f"{words} cannot be combined with --preset", hint="Remove it, or remove --preset."
            )
    if options.precision != _PRECISION:
        raise UsageError("a preset has its own number formats", hint="Exclude amp with --without amp.")
    preset = preset_named(options.preset)
    cluster = cluster_named(options.cluster or preset.cluster)
    gpus = str(options.nodes * cluster.gpus_per_node) if options.nodes else options.gpus or ""
    sizes = cluster.sizes(gpus)
    if len(sizes) > 1:
        raise UsageError("a preset takes one number of GPUs", hint="Example: --gpus 8")
    tokens = read_count(options.tokens) if options.tokens else None
    left_out = [name for name in (options.without or "").split(",") if name]
    report = preset_report(preset, sizes[0], predictor_for(cluster.gpu), left_out, tokens)
    deliver(report, lambda: preset_page(report), options.json)
    write_page(options.html, preset_page(report), f"Plan {options.preset}", "preset", report)
    return int(ExitCode.OK)
