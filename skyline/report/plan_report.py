"""Strategies on a described cluster as rows, ``skyline.plan/1``, and the clusters and models to choose from."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.strategy import Strategy

PLAN_SCHEMA = "skyline.plan/1"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One strategy on one size of the cluster. Times in ms, memory in bytes."""

    rank: int
    label: str
    gpus: int
    strategy: Strategy
    step_ms: Interval
    units_per_s: Interval
    mfu: float
    memory_bytes: Interval
    memory_parts: dict[str, float]
    step_parts_ms: dict[str, float]
    limit: str
    slower_than_best: float
    hours: Interval | None
    usd: Interval | None
    objection: str
    """Why the row misses the budget or the deadline; empty if it does not."""
    why: str
    """Why the row is slower than the fastest row with as many GPUs, by part of the step; empty for that row."""
    whatifs: tuple[str, ...]
    """The what-ifs that turn the script into this strategy; empty if no rewrite does."""
    stage_memory_bytes: tuple[float, ...] = ()
    """The peak memory of a rank of each pipeline stage; empty without a pipeline."""
    stage_layers: tuple[str, ...] = ()
    """The layers of each stage in words; empty without a pipeline, or if stages have several chunks each."""


@dataclass(frozen=True, slots=True)
class TooLargeRow:
    """The strategy with the least memory for a layout that does not fit."""

    label: str
    gpus: int
    memory_bytes: float
    usable_bytes: float


@dataclass(frozen=True, slots=True)
class PlanReport:
    """``skyline.plan/1``: a ranked table of strategies. ``provenance`` holds for every figure.

    ``considered`` strategies were examined, ``fitting`` of them can be used, ``refused`` counts the others by
    reason. ``advice`` says why no strategy can be used, and the next step; it is empty if there are rows.
    """

    schema: str
    provenance: str
    model: str
    unit: str
    cluster: str
    gpu: str
    source: str
    considered: int
    fitting: int
    refused: dict[str, int]
    too_large: tuple[TooLargeRow, ...]
    advice: str
    rows: tuple[PlanRow, ...]


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """A described cluster. Rates in GB/s in one direction: ``inside`` of a GPU, ``between`` of a node's network."""

    name: str
    gpu: str
    nodes: int
    gpus_per_node: int
    inside_gb_s: float
    between_gb_s: float
    usd_per_node_hour: float | None
    source: str


@dataclass(frozen=True, slots=True)
class PlanChoices:
    """The clusters and transformers to plan for: those of Skyline, and descriptions in the script's folder.

    A description in the script's folder has its file name as its name.
    """

    clusters: tuple[ClusterReport, ...]
    models: tuple[str, ...]
