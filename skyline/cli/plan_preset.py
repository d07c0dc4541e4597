"""The part of ``skyline plan`` that answers ``--preset``."""

from __future__ import annotations

import argparse

from skyline.cli.streams import deliver
from skyline.errors import ExitCode, UsageError

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
    """Print the measures of a preset on its cluster, or on the one that is named."""
    from skyline.plan.cluster import cluster_named
    from skyline.plan.money import read_count
    from skyline.plan.presets import preset_named
    from skyline.predict.registry import predictor_for
    from skyline.report.pages.preset import preset_page
    from skyline.report.preset_report import preset_report

    for name, words in _OTHER_QUESTIONS.items():
        if getattr(options, name):
            raise UsageError(f"{words} is no part of a preset", hint="Leave it out, or leave out --preset.")
    if options.precision != _PRECISION:
        raise UsageError("a preset has its own number formats", hint="Leave amp out with --without amp.")
    preset = preset_named(options.preset)
    cluster = cluster_named(options.cluster or preset.cluster)
    gpus = str(options.nodes * cluster.gpus_per_node) if options.nodes else options.gpus or ""
    sizes = cluster.sizes(gpus)
    if len(sizes) > 1:
        raise UsageError("a preset takes one number of GPUs", hint="As in: --gpus 8")
    tokens = read_count(options.tokens) if options.tokens else None
    left_out = [name for name in (options.without or "").split(",") if name]
    report = preset_report(preset, sizes[0], predictor_for(cluster.gpu), left_out, tokens)
    deliver(report, lambda: preset_page(report), options.json)
    return int(ExitCode.OK)
