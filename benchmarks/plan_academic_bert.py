"""The measures of ``skyline plan --preset academic-bert`` on its server, and BERT's whole training on T4 clusters.

    python benchmarks/plan_academic_bert.py

Published are 24 hours on eight Titan V (Izsak and others 2021), a fixed time, and 12 days on a cluster of a size
that the abstract does not state (Lin and others 2020). Neither is a throughput. The page has the number of steps in a
day for the first, and the days of BERT's own amount of training on clusters of T4 for the second.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace

from machine import Machine
from result_file import table, write

from skyline.plan.cluster import ClusterLink, ClusterSpec, cluster_named
from skyline.plan.preset import Preset
from skyline.plan.presets import preset_named
from skyline.predict.registry import predictor_for
from skyline.report.preset_report import PresetReport, PresetStep, preset_report
from skyline.units import format_ratio

NODES = (1, 2, 4, 8, 16, 32, 64)
GBIT_S = (10, 50)
PUBLISHED_DAYS = 12


@dataclass(frozen=True, slots=True)
class Days:
    """Days of the whole training on T4 GPUs, four in a node, by the rate between nodes in Gbit/s."""

    gpus: int
    days: dict[int, tuple[float, float, float]]
    """The prediction, and its range."""


def days(preset: Preset, nodes: int) -> Days:
    """The whole training with all measures."""
    found: dict[int, tuple[float, float, float]] = {}
    for rate in GBIT_S:
        report = preset_report(preset, _nodes(nodes, rate), predictor_for(_nodes(nodes, rate).gpu))
        assert report.joint is not None
        hours = report.joint.hours
        found[rate] = (hours.value / 24, hours.low / 24, hours.high / 24)
    return Days(_nodes(nodes, GBIT_S[0]).gpus, found)


def _nodes(count: int, gbit_s: float) -> ClusterSpec:
    node = cluster_named("g4dn.12xlarge")
    return replace(node, nodes=count, between=ClusterLink(gb_s=gbit_s / 8, latency_us=30))


def main() -> int:
    """Time the preset, and write the page."""
    machine = Machine.here()
    preset = preset_named("academic-bert")
    server = cluster_named(preset.cluster)
    report = preset_report(preset, server, predictor_for(server.gpu))
    clusters = [days(preset, nodes) for nodes in NODES]
    name = write(
        "plan_academic_bert",
        "BERT with an academic budget",
        machine,
        f"{_measures(report)}\n\n{_clusters(clusters)}",
        {"server": asdict(report), "clusters": [asdict(one) for one in clusters]},
    )
    print(name)
    return 0


def _measures(report: PresetReport) -> str:
    joint = report.joint
    assert joint is not None
    assert report.gain is not None
    assert report.product is not None
    assert report.steps_a_day is not None
    head = (
        "measure",
        "training",
        "micro-batch",
        "tokens/s",
        "gain",
        "alone",
        "in the stack",
        "memory, GB",
        "days",
    )
    rows = [_cells("start", "", report.start, (None, None, None))]
    rows += [
        _cells(one.name, one.semantics, one.step, (one.gain, one.alone, one.without))
        for one in report.measures
    ]
    return (
        f"{report.gpus} {report.gpu} in one server. With all measures {joint.tokens_per_s.value:,.0f} "
        f"({joint.tokens_per_s.low:,.0f} to {joint.tokens_per_s.high:,.0f}) tokens/s: {format_ratio(report.gain)} the "
        f"start. The product of the gains of single measures is {format_ratio(report.product)}. A day has "
        f"{report.steps_a_day:,.0f} steps of {joint.batch:,} sequences of {joint.sequence} tokens. The "
        "published training takes 24 hours on such a server. Its number of steps could not be confirmed, so "
        "no error is given. *gain*: relative to the row before. *alone*: relative to the start. *in the "
        "stack*: all measures relative to all but this one. *days*: for the tokens of BERT's own "
        "training.\n\n"
        f"{table(head, rows)}"
    )


def _cells(
    name: str, semantics: str, step: PresetStep | None, gains: tuple[float | None, ...]
) -> tuple[str, ...]:
    assert step is not None
    return (
        name,
        semantics,
        step.label.partition("micro-batch ")[2],
        f"{step.tokens_per_s.value:,.0f}",
        *("-" if one is None else format_ratio(one) for one in gains),
        f"{step.memory_bytes.value / 1e9:.1f}",
        f"{step.hours.value / 24:,.1f}",
    )


def _clusters(rows: list[Days]) -> str:
    said = (
        f"The published time is {PUBLISHED_DAYS} days on a cluster. The abstract does not give its size, so "
        "no row can be compared with it. A T4 lowers its clock to stay within 70 W, and dropout and launches "
        "take time. None of these is modelled, so the days are a lower bound"
    )
    head = ("T4", *(f"days, {rate} Gbit/s" for rate in GBIT_S))
    cells = [(str(one.gpus), *(_words(one.days[rate]) for rate in GBIT_S)) for one in rows]
    return f"Nodes of four T4, with all measures. {said}. No step was measured.\n\n{table(head, cells)}"


def _words(found: tuple[float, float, float]) -> str:
    value, low, high = found
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


if __name__ == "__main__":
    sys.exit(main())
