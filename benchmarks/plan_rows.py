"""Published runs as strategies: llm-foundry's FSDP rows and torchtitan's tables."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skyline.errors import SkylineError
from skyline.plan.cluster import ClusterLink, ClusterSpec, cluster_named
from skyline.plan.strategy import PipelineSchedule, Precision, Recompute, Sharding, Strategy
from skyline.plan.transformer import Transformer, transformer_named
from skyline.predict.gpus import gpu_named

FOUNDRY, TITAN = "llm_foundry_fsdp.csv", "torchtitan.json"
_CLUSTERS = {
    "A100-40GB": "dgx-a100-40gb",
    "A100-80GB-SXM": "dgx-a100",
    "H100": "dgx-h100",
    "H200": "dgx-h200",
}
_PRECISIONS = {"amp_bf16": Precision.MIXED, "bf16": Precision.PURE, "amp_fp8": Precision.FLOAT8}
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One run: its strategy, the published tokens per second and GPU, and the memory if it is stated."""

    source: str
    model: Transformer
    gpu: str
    cluster: ClusterSpec
    strategy: Strategy
    tokens_per_s_gpu: float
    memory_bytes: float | None = None

    @property
    def group(self) -> str:
        return f"{self.source} {self.gpu}"


def published_runs(folder: Path) -> tuple[list[PublishedRun], dict[str, int]]:
    """All runs that can be described, and the number of others by reason."""
    runs: list[PublishedRun] = []
    left_out: dict[str, int] = {}
    for reader in (_foundry, _titan):
        found, others = reader(folder)
        runs += found
        for reason, count in others.items():
            left_out[reason] = left_out.get(reason, 0) + count
    return runs, left_out


def cluster_of(gpu_name: str, gpus: int) -> ClusterSpec:
    """The described cluster with these GPUs. For other GPUs, their direct link and 200 Gb/s of network for each."""
    gpu = gpu_named(gpu_name)
    if gpu.name in _CLUSTERS:
        return cluster_named(_CLUSTERS[gpu.name]).with_gpus(gpus)
    inside = (gpu.link_gb_s or gpu.pcie_gb_s or 32.0) / 2
    return ClusterSpec(gpu.name, gpu, 1, 8, ClusterLink(inside, 2.0), ClusterLink(200.0, 5.0)).with_gpus(gpus)


def _foundry(folder: Path) -> tuple[list[PublishedRun], dict[str, int]]:
    path = folder / FOUNDRY
    if not path.exists():
        return [], {f"{FOUNDRY} is not in the folder": 1}
    runs: list[PublishedRun] = []
    left_out: dict[str, int] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                runs.append(_foundry_run(row))
            except (SkylineError, KeyError, ValueError) as error:
                reason = f"{FOUNDRY}: {error}"
                left_out[reason] = left_out.get(reason, 0) + 1
    return runs, left_out


def _foundry_run(row: dict[str, str]) -> PublishedRun:
    gpus = int(row["# GPUs"])
    gpu = gpu_named(row["GPU"].replace("_", "-").replace("a100-80gb", "a100-sxm4-80gb"))
    strategy = Strategy(
        data=gpus,
        sharding=Sharding.ZERO_3 if row["Sharding Strategy"] == "FULL_SHARD" else Sharding.ZERO_2,
        micro_batch=int(row["MicroBatchSize"]),
        accumulation=int(row["GradAccum"]),
        recompute=Recompute.FULL if row["Activation Checkpointing"] == "True" else Recompute.NONE,
        precision=_PRECISIONS[row["Precision"]],
    )
    model = transformer_named(f"mpt-{row['Model']}", int(row["SeqLen (T)"]))
    return PublishedRun(
        "llm-foundry",
        model,
        gpu.name,
        cluster_of(gpu.name, gpus),
        strategy,
        float(row["Throughput (T/s/GPU)"]),
    )


def _titan(folder: Path) -> tuple[list[PublishedRun], dict[str, int]]:
    path = folder / TITAN
    if not path.exists():
        return [], {f"{TITAN} is not in the folder": 1}
    runs: list[PublishedRun] = []
    left_out: dict[str, int] = {}
    for table in json.loads(path.read_text(encoding="utf-8")):
        for row in table["rows"]:
            run = _titan_run(table, dict(zip(table["header"], row, strict=False)))
            if run is not None:
                runs.append(run)
            elif "Versions and Dates" not in table["headings"]:
                reason = f"{TITAN}: a row whose configuration is not in its table, or float8 by rows"
                left_out[reason] = left_out.get(reason, 0) + 1
    return runs, left_out


def _titan_run(table: dict[str, Any], row: dict[str, str]) -> PublishedRun | None:
    said = " ".join((table["before"].rpartition("**Table")[2] or table["before"], *table["headings"]))
    speed = next((row[key] for key in row if key in ("TPS/GPU", "Vanilla TP tokens/sec")), None)
    size = re.search(r"[Ll]lama ?3(?:\.1)? (\d+)[Bb]", said)
    count = re.search(r"(\d+) (?:H100 )?(?:GPUs|H100s|H200s)", said)
    batch = re.search(r"[Ll]ocal batch size (\d+)", said)
    if speed is None or not (size and count and batch) or "float8 rowwise" in row.values():
        return None
    gpus, local = int(count[1]), int(batch[1])
    gpu = "H200" if "H200" in said.upper() else "H100"
    said_all = said + " ".join(row.values())
    ways = {name: _ways(said, name) for name in ("TP", "PP")}
    context = _cell(row, "CP") or (_context(row) if "CP" in said else 1)
    fp8 = "float8" in said_all.lower() and "None (bfloat16)" not in row.values()
    strategy = Strategy(
        data=gpus // (ways["TP"] * ways["PP"] * context),
        sharding=Sharding.ZERO_3,
        tensor=ways["TP"],
        pipeline=ways["PP"],
        context=context,
        micro_batch=local,
        recompute=Recompute.FULL if re.search(r"[Ff]ull (AC|activation)", said) else Recompute.SELECTIVE,
        precision=Precision.FLOAT8 if fp8 else Precision.MIXED,
        compiled="compile" in said_all,
        async_tensor="asynctp" in said_all.lower() and "Vanilla TP tokens/sec" not in row,
    )
    if ways["PP"] > 1:
        interleaved = "Interleaved" in row.get("Schedule", "")
        schedule = PipelineSchedule.INTERLEAVED if interleaved else PipelineSchedule.ONE_F_ONE_B
        # torchtitan splits the local batch into as many micro-batches as there are stages unless told otherwise.
        strategy = replace(
            strategy,
            micro_batch=max(1, local // ways["PP"]),
            accumulation=ways["PP"],
            schedule=schedule,
            chunks=2 if interleaved else 1,
        )
    sequence = _cell(row, "Sequence") or _cell(row, "Seq") or 8192
    memory = row.get("Memory(GiB)")
    return PublishedRun(
        "torchtitan",
        transformer_named(f"llama3-{size[1].lower()}b", sequence),
        gpu,
        cluster_of(gpu, gpus),
        strategy,
        float(speed.replace(",", "")),
        float(memory) * _GIB if memory else None,
    )


def _ways(said: str, name: str) -> int:
    found = re.search(rf"\b{name} ?=? ?(\d+)", said)
    return int(found[1]) if found else 1


def _context(row: dict[str, str]) -> int:
    found = re.search(r"CP ?=? ?(\d+)", " ".join(row.values()))
    return int(found[1]) if found else 1


def _cell(row: dict[str, str], start: str) -> int | None:
    for key, value in row.items():
        if key.startswith(start) and value.replace(",", "").isdigit():
            return int(value.replace(",", ""))
    return None
