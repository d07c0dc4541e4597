"""A profile of a small transformer on two CPU threads, with the numbers such a run gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.base import Evidence
from skyline.interval import Interval
from skyline.report.schema import (
    PROFILE_SCHEMA,
    WHATIF_SCHEMA,
    BaselineReport,
    BatchSizeReport,
    CriticalPathReport,
    CurvePointReport,
    EstimateReport,
    FindingReport,
    KnobReport,
    LineReport,
    LoopReport,
    MemoryBreakdown,
    MemoryReport,
    ProfileReport,
    WhatIfReport,
)
from skyline.trace.facts import Device
from skyline.trace.record import PhaseTimes
from skyline.whatif.question import speedup_range

ROOT = "/home/ada/nano"
TRAIN = f"{ROOT}/train.py"
MODEL = f"{ROOT}/nano/model.py"


def about(value: float, half: float) -> Interval:
    return Interval(value, value - half, value + half)


def _line(
    file: str, line: int, function: str, source: str, *, calls: float = 1, **phases: float
) -> LineReport:
    times = {
        f"{name}_ms": phases.get(name, 0.0) for name in ("data", "forward", "backward", "optimizer", "other")
    }
    total = sum(times.values())
    return LineReport(
        file=file, line=line, function=function, module="", source=source, calls=calls,
        self_ms=total, share=total / 182.4, activation_bytes=int(phases.get("bytes", 0)), **times,
    )  # fmt: skip


def lines() -> tuple[LineReport, ...]:
    rows = (
        _line(MODEL, 88, "Attention.forward", "        att = q @ k.transpose(-2, -1) * self.scale",
              calls=6, forward=14.2, backward=26.8, bytes=201_326_592),
        _line(MODEL, 90, "Attention.forward", "        att = softmax(att, dim=-1)",
              calls=6, forward=9.4, backward=14.1, bytes=201_326_592),
        _line(TRAIN, 41, "main", "    for x, y in loader:", data=21.9),
        _line(MODEL, 61, "Block.forward", "        x = x + self.mlp(self.ln2(x))",
              calls=6, forward=6.6, backward=11.6, bytes=88_080_384),
        _line(MODEL, 91, "Attention.forward", "        out = (att @ v).transpose(1, 2).reshape(b, t, c)",
              calls=6, forward=6.1, backward=11.2, bytes=25_165_824),
        _line(MODEL, 118, "Nano.forward", "        return F.cross_entropy(logits.flatten(0, 1), y.view(-1))",
              forward=5.4, backward=7.7, bytes=67_108_864),
        _line(TRAIN, 49, "main", "        optimizer.step()", optimizer=10.9),
        _line(MODEL, 81, "Attention.forward", "        q, k, v = self.qkv(x).chunk(3, dim=-1)",
              calls=6, forward=3.1, backward=6.2, bytes=37_748_736),
        _line(MODEL, 112, "Nano.forward", "        logits = self.head(self.ln_f(x))", forward=3.6, backward=5.0),
        _line(f"{ROOT}/nano/augmentations/a_module_with_a_rather_long_name.py", 1204, "jitter",
              "    return x + torch.randn_like(x) * self.standard_deviation_of_the_noise", forward=2.8),
        _line(TRAIN, 52, "main", "        running += loss.item()", other=1.4),
        _line(MODEL, 107, "Nano.forward", "        x = self.embed(idx) + self.position", forward=1.0, backward=3.8),
    )  # fmt: skip
    rest = 182.4 - sum(row.self_ms for row in rows)
    unattributed = LineReport(
        file="", line=0, function="", module="", source="", calls=0, data_ms=0.0, forward_ms=rest - 5.3,
        backward_ms=3.0, optimizer_ms=0.0, other_ms=2.3, self_ms=rest, share=rest / 182.4, activation_bytes=0,
    )  # fmt: skip
    return (*rows, unattributed)


def curve() -> tuple[CurvePointReport, ...]:
    points: list[CurvePointReport] = []
    for batch, ms, spread, gigabytes, measured, extrapolated in (
        (8, 66.1, 1.2, 0.8, True, False),
        (16, 104.0, 1.6, 1.16, True, False),
        (24, 143.0, 4.0, 1.53, False, False),
        (32, 182.4, 2.1, 1.9, True, False),
        (48, 261.0, 3.4, 2.64, True, False),
        (64, 340.0, 9.0, 3.4, False, True),
        (96, 500.0, 26.0, 4.9, False, True),
        (128, 661.0, 61.0, 25.1, False, True),
    ):
        time = about(ms, spread)
        peak = Interval.exact(gigabytes * 1e9) if measured else about(gigabytes * 1e9, gigabytes * 2e7)
        points.append(CurvePointReport(batch, time, time.inverse(batch * 1000), peak, measured, extrapolated))
    return tuple(points)


@pytest.fixture
def profile_report() -> ProfileReport:
    time = about(182.4, 2.1)
    return ProfileReport(
        schema=PROFILE_SCHEMA,
        id="20260314-140233-train",
        created="2026-03-14T14:02:33+01:00",
        script=TRAIN,
        arguments=("--epochs", "2"),
        mode="measured",
        device=Device("AMD EPYC 7B13", "cpu"),
        intraop_threads=2,
        steps=(181.0, 182.4, 184.9, 180.3, 183.0, 182.2, 182.9, 181.8),
        iteration_ms=time,
        throughput=time.inverse(32_000),
        batch_size=BatchSizeReport(
            32, KnobReport(TRAIN, 22, 54, 56, "32", "argparse default"), None,
        ),
        memory=MemoryReport(
            Interval.exact(1.9e9), int(24e9),
            MemoryBreakdown(340_000_000, 340_000_000, 680_000_000, 520_000_000, 20_000_000),
        ),
        phases=PhaseTimes(data=21.9, forward=56.5, backward=89.4, optimizer=10.9, other=3.7),
        lines=lines(),
        unattributed_share=lines()[-1].share,
        critical_path=CriticalPathReport(0.86, 0.0, 0.0, 0.0, 0.12, 0.02),
        replay_error=0.004,
        overhead=1.1,
        findings=(
            FindingReport("SKY102", "the loop waits for the data loader", TRAIN, 41, 21.9, "num_workers=2"),
            FindingReport("SKY301", "the optimizer steps one tensor at a time", TRAIN, 30, 5.1, "fused_optimizer",
                          (Evidence("Adam updates 148 tensors", TRAIN, 51), Evidence("no more is known"))),
            FindingReport("SKY602", "printing takes much of the iteration", TRAIN, 52, 1.4, None,
                          (Evidence("print(): 1.4 ms of an iteration", TRAIN, 52),)),
            FindingReport("SKY403", "each iteration keeps 2.0 MB more than the one before", TRAIN, 55, 0.0, None),
        ),
        curve=curve(),
        loop=LoopReport(TRAIN, 41),
        notes=("batch size 64 was left out of the curve: it would not have fitted in the memory that was free",),
    )  # fmt: skip


def estimate(name: str, value: str, title: str, ms: float, half: float, **changes: object) -> EstimateReport:
    time = about(ms, half)
    values: dict[str, object] = {
        "name": name, "value": value, "title": title, "iteration_ms": time, "throughput": time.inverse(32_000),
        "change_ms": about(ms - 182.4, half),
        "peak_bytes": Interval.exact(1.9e9), "speedup": 182.4 / ms, "applicable": True, "reason": None,
        "semantics": "exact", "provenance": "modelled", "assumptions": (), "rewrite": "available",
        "rewrite_reason": None, "speedup_range": speedup_range(182.4 / ms, 182.4, about(ms - 182.4, half)), **changes,
    }  # fmt: skip
    return EstimateReport(**values)  # type: ignore[arg-type]


@pytest.fixture
def whatif_report() -> WhatIfReport:
    time = about(182.4, 2.1)
    return WhatIfReport(
        schema=WHATIF_SCHEMA,
        baseline=BaselineReport(time, time.inverse(32_000), Interval.exact(1.9e9), 0.004),
        estimates=(
            estimate("num_workers", "2", "load batches in 2 worker processes", 163.4, 4.0,
                     assumptions=("two cores are free beside the training process",)),
            estimate("fused_optimizer", "", "step all parameters in one fused kernel", 177.3, 1.0,
                     assumptions=("measured on AdamW with 74 tensors",)),
            estimate("checkpointing", "", "recompute activations in backward", 204.4, 3.0,
                     peak_bytes=Interval.exact(0.8e9), rewrite="refused",
                     rewrite_reason="Block.forward takes a keyword-only argument"),
            estimate("amp", "bf16", "compute in bfloat16 under autocast", 242.4, 20.0,
                     semantics="numerics", provenance="assumed", peak_bytes=about(1.5e9, 0.1e9)),
            estimate("batch_size", "64", "twice the batch", 340.0, 9.0, throughput=about(188.2, 5.0), speedup=1.07,
                     speedup_range=Interval(1.07, 1.04, 1.1),
                     semantics="convergence", peak_bytes=about(3.4e9, 0.07e9), batch_size=64, extrapolated=True),
            estimate("compile", "", "compile the model", 182.4, 0.0, applicable=False, rewrite="none",
                     reason="no C++ compiler was found on this machine, and the CPU backend needs one"),
        ),
        combined=estimate("num_workers+fused_optimizer", "", "together", 158.1, 4.4),
    )  # fmt: skip


@pytest.fixture
def faster_report(profile_report: ProfileReport) -> ProfileReport:
    """The same script after two lines moved down, one got cheaper and one went away."""
    time = about(170.0, 1.5)
    changed: list[LineReport] = []
    for line in profile_report.lines:
        if line.source.strip() == "running += loss.item()":
            continue
        moved = replace(line, line=line.line + 2) if line.file == TRAIN else line
        if line.source.strip() == "optimizer.step()":
            moved = replace(moved, optimizer_ms=4.9, self_ms=4.9, share=4.9 / 170.0)
        if line.source.strip() == "for x, y in loader:":
            moved = replace(moved, data_ms=16.9, self_ms=16.9, share=16.9 / 170.0)
        changed.append(moved)
    return replace(
        profile_report,
        id="20260314-150012-train",
        created="2026-03-14T15:00:12+01:00",
        iteration_ms=time,
        throughput=time.inverse(32_000),
        lines=tuple(changed),
        phases=PhaseTimes(data=16.9, forward=56.5, backward=89.4, optimizer=4.9, other=2.3),
        memory=replace(profile_report.memory, peak_bytes=Interval.exact(1.8e9)),
    )
