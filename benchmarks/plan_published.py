"""Scores the planner on published runs: throughput, memory and scaling, compared with two baselines.

``--data FOLDER`` is any folder with the same files: llm_foundry_fsdp.csv, torchtitan.json, nvidia_examples.json.
``--fit`` fits the constants again and reports the errors on model sizes and GPUs left out of the fit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from machine import Machine
from plan_fit import Constants, Fitted
from plan_rows import PublishedRun, published_runs
from plan_scaling import EXPLAINED as SCALING
from plan_scaling import scaling_summary, scaling_table, scalings
from result_file import table, write
from scaling_rows import scaling_pairs

from skyline.plan.cluster import cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.rank_memory import largest_rank
from skyline.plan.search import Request, search
from skyline.plan.step import step_range
from skyline.plan.transformer import transformer_named
from skyline.plan.work import work_of
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.registry import predictor_named

_ASSUMED_MFU = 0.4
_SEARCHED_GPUS = 1024
_EXPLAINED = """Error of tokens per second. The constants were fitted on the llm-foundry rows in 16 bits, not
on the rows of torchtitan or in float8. But two choices were made after torchtitan's rows were seen: the bytes
that the loss keeps, and the micro-batches of its pipelines. *40 % of peak*: the mean error of FLOP over 40 %
of the stated peak. *linear*: the mean error of assuming the throughput per GPU of the published run of that
model on the fewest GPUs. It needs one measurement of each model. In brackets: the planner's error on the same
runs. *in range*: the published figure is in the planner's range. *memory*: mean error of the peak memory, if
it is published."""
_LEFT_OUT = """The constants are fitted on the other groups (llm-foundry in 16 bits), from neutral starting
values. The form of the model was chosen after all rows were seen. An architecture without its own rows gets
the mean of the others."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Relative errors of one run by the planner and by both baselines. None if a baseline does not apply."""

    run: PublishedRun
    ratio: float
    inside: bool
    linear: float | None
    mfu: float
    memory: float | None
    step_ms: float

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)


def main() -> int:
    options = _options()
    folder = Path(options.data)
    runs, left_out = published_runs(folder)
    predictor = predictor_named("mixed")
    scored = _scored(runs, predictor)
    pairs, others = scaling_pairs(folder)
    scaling = scalings(pairs)
    figures: dict[str, Any] = {
        "throughput": {name: _summary(rows) for name, rows in _groups(scored).items()},
        "scaling": scaling_summary(scaling),
        "contradicting": [
            f"{one.model}, {one.gpu}, {'mixed' if one.mixed else 'single'} precision: {one.contradiction}"
            for one in pairs
            if one.contradiction
        ],
        "scaling_pairs": [
            {"model": one.pair.model, "gpu": one.pair.gpu, "mixed": one.pair.mixed,
             "published": round(one.pair.published, 3), "predicted": round(one.predicted, 3),
             "low": round(one.low, 3), "high": round(one.high, 3), "contradiction": one.pair.contradiction}
            for one in scaling
        ],
        "left_out": {**left_out, **others},
        "exact_ms": max((one.step_ms for one in scored), default=0.0),
        "runs": [
            {"group": one.run.group, "model": one.run.model.name, "sequence": one.run.model.sequence,
             "strategy": one.run.strategy.label(), "gpus": one.run.strategy.ranks, "ratio": round(one.ratio, 3),
             "inside_range": one.inside, "memory_ratio": one.memory and round(one.memory, 3)}
            for one in scored
        ],
    }  # fmt: skip
    figures["search"] = _search(predictor)
    if options.fit:
        figures["fit"] = _fit(Fitted.of(runs, predictor))
    if options.json is not None:
        text = json.dumps(figures, indent=2) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            Path(options.json).write_text(text, encoding="utf-8")
    if options.json != "-":
        print(_page(figures))
    if options.write:
        write("plan_published", "The planner on published runs", Machine.here(), _page(figures), figures)
    return 0


def _search(predictor: OperatorPredictor) -> dict[str, float]:
    """The time to rank the strategies of a 70B model on 1,024 GPUs, in processor seconds."""
    cluster = cluster_named("dgx-h100").with_gpus(_SEARCHED_GPUS)
    start = process_time()
    found = search(transformer_named("llama3-70b"), [cluster], predictor, Request())
    return {"strategies": found.considered, "usable": found.usable, "seconds": process_time() - start}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON ('-': only to stdout)")
    parser.add_argument(
        "--fit", action="store_true", help="also fit the constants, leaving out sizes and GPUs"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/plan_published.*")
    return parser.parse_args()


def _scored(runs: Sequence[PublishedRun], predictor: OperatorPredictor) -> list[Scored]:
    kernels = {run.gpu: KernelTimes(run.cluster.gpu, predictor) for run in runs}
    found: list[Scored] = []
    for run in runs:
        start = perf_counter()
        layers = run.model.layers(run.strategy)
        work = work_of(layers, kernels[run.gpu], run.strategy.precision)
        step, total = step_range(work, run.strategy, run.cluster)
        took = (perf_counter() - start) * 1e3
        tokens = run.strategy.samples_per_step * run.model.sequence / run.strategy.ranks
        rate = tokens / (step.total_us / 1e6)
        slow, fast = tokens / (total.high / 1e6), tokens / (total.low / 1e6)
        smaller = _fewest(run, runs)
        peak = (run.cluster.gpu.tflops_bf16 or run.cluster.gpu.tflops_fp16 or 1.0) * 1e12
        by_mfu = _ASSUMED_MFU * peak / (run.model.flops_per_sample / run.model.sequence)
        memory = (
            largest_rank(layers, run.strategy).peak_bytes / run.memory_bytes if run.memory_bytes else None
        )
        linear = smaller.tokens_per_s_gpu / run.tokens_per_s_gpu if smaller else None
        found.append(
            Scored(
                run,
                rate / run.tokens_per_s_gpu,
                slow <= run.tokens_per_s_gpu <= fast,
                linear,
                by_mfu / run.tokens_per_s_gpu,
                memory,
                took,
            )
        )
    return found


def _fewest(run: PublishedRun, runs: Iterable[PublishedRun]) -> PublishedRun | None:
    """The published run of the same model on the fewest GPUs, from which linear scaling starts."""
    same = [
        one
        for one in runs
        if (one.source, one.gpu, one.model) == (run.source, run.gpu, run.model)
        and one.strategy.precision is run.strategy.precision
        and one.strategy.ranks < run.strategy.ranks
    ]
    return min(same, key=lambda one: one.strategy.ranks, default=None)


def _groups(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    found: dict[str, list[Scored]] = {"all": list(scored)}
    for one in scored:
        found.setdefault(one.run.group, []).append(one)
        nodes = "more than one node" if one.run.strategy.ranks > 8 else "one node"
        found.setdefault(f"{one.run.source} {nodes}", []).append(one)
    return {name: rows for name, rows in found.items() if rows}


def _summary(rows: Sequence[Scored]) -> dict[str, float | int | None]:
    errors = [one.error for one in rows]
    linear = [(abs(one.linear - 1), one.error) for one in rows if one.linear is not None]
    memory = [abs(one.memory - 1) for one in rows if one.memory is not None]
    return {
        "runs": len(rows),
        "mean_error": float(np.mean(errors)),
        "ninth_decile": float(np.quantile(errors, 0.9)),
        "worst": float(np.max(errors)),
        "inside_range": float(np.mean([one.inside for one in rows])),
        "mean_error_flop_at_40": float(np.mean([abs(one.mfu - 1) for one in rows])),
        "linear_runs": len(linear),
        "mean_error_linear": float(np.mean([one for one, _ in linear])) if linear else None,
        "mean_error_there": float(np.mean([one for _, one in linear])) if linear else None,
        "memory_runs": len(memory),
        "memory_error": float(np.mean(memory)) if memory else None,
    }


def _fit(fitted: Fitted) -> dict[str, Any]:
    constants = fitted.fit(range(len(fitted.runs)))
    return {
        "constants": {
            "peak_share": constants.peak,
            "attention_share": constants.attention,
            "elementwise_passes": constants.passes,
            "contention": constants.contention,
            "exposed_latency": constants.latency,
        },
        "shipped_error": float(np.mean(np.abs(fitted.errors(Constants.shipped(), range(len(fitted.runs)))))),
        "left_out_sizes": _left_out(fitted.left_out(lambda run: run.model.name)),
        "left_out_gpus": _left_out(fitted.left_out(lambda run: run.gpu)),
    }


def _left_out(errors: dict[str, list[float]]) -> dict[str, Any]:
    every = [error for group in errors.values() for error in group]
    return {
        name: {
            "runs": len(one), "mean_error": float(np.mean(one)), "ninth_decile": float(np.quantile(one, 0.9))
        }
        for name, one in {**errors, "all": every}.items()
    }  # fmt: skip


def _page(figures: dict[str, Any]) -> str:
    head = (
        "rows",
        "runs",
        "mean error",
        "90 % within",
        "in range",
        "40 % of peak",
        "linear (ours there)",
        "memory",
    )
    body = [
        (
            name,
            str(one["runs"]),
            _percent(one["mean_error"]),
            _percent(one["ninth_decile"]),
            _percent(one["inside_range"]),
            _percent(one["mean_error_flop_at_40"]),
            f"{_percent(one['mean_error_linear'])} ({_percent(one['mean_error_there'])})",
            _percent(one["memory_error"]),
        )
        for name, one in figures["throughput"].items()
    ]
    parts = [_EXPLAINED, table(head, body)]
    if figures["scaling"]:
        parts += [SCALING, scaling_table(figures["scaling"])]
        if figures["contradicting"]:
            parts.append(
                "Rows that contradict themselves:\n\n"
                + "\n".join(f"- {one}" for one in figures["contradicting"])
            )
    if "fit" in figures:
        fit = figures["fit"]
        rows = [
            (kind, name, str(one["runs"]), _percent(one["mean_error"]), _percent(one["ninth_decile"]))
            for kind, key in (("model size", "left_out_sizes"), ("GPU", "left_out_gpus"))
            for name, one in fit[key].items()
        ]
        parts += [
            _LEFT_OUT,
            table(("left out", "group", "runs", "mean error", "90 % within"), rows),
            f"Constants of the fit on all rows: `{json.dumps(fit['constants'])}`",
        ]
    parts.append(f"Longest time for one strategy: {figures['exact_ms']:.1f} ms.")
    searched = figures["search"]
    parts.append(
        f"A 70B model on {_SEARCHED_GPUS:,} GPUs: {searched['strategies']:,} strategies in {searched['seconds']:.1f} s "
        "of one core."
    )
    reasons = [f"- {reason}: {count}" for reason, count in figures["left_out"].items()]
    return "\n\n".join([*parts, *(["Left out:\n\n" + "\n".join(reasons)] if reasons else [])])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


if __name__ == "__main__":
    raise SystemExit(main())
