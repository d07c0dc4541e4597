from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def event(name: str, category: str, start: float, end: float, **given: Any) -> dict[str, Any]:
    place = 7 if category == "kernel" else 1
    return {"ph": "X", "cat": category, "name": name, "pid": place, "tid": place, "ts": start,
            "dur": end - start, "args": given}  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Three ranks, of which rank 1 computes for 8 ms of a step of 10 ms, and the others for 4 ms."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank, compute in enumerate((4000.0, 8000.0, 4000.0)):
        events: list[dict[str, Any]] = []
        for step in range(3):
            begin = 10_000.0 * step
            number = 10 * step
            events += [
                event(f"ProfilerStep#{step}", "user_annotation", begin, begin + 10_000),
                event("cudaLaunchKernel", "cuda_runtime", begin + 10, begin + 20, correlation=number + 1),
                event("sgemm", "kernel", begin + 16, begin + 16 + compute, stream=7, correlation=number + 1),
                event("cudaLaunchKernel", "cuda_runtime", begin + 50, begin + 60, correlation=number + 2),
                event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "kernel", begin + 17 + compute, begin + 9000,
                      stream=7, correlation=number + 2),
                event("cudaDeviceSynchronize", "cuda_runtime", begin + 100, begin + 9002, correlation=number + 3),
            ]  # fmt: skip
        content = {"distributedInfo": {"rank": rank, "world_size": 4}, "traceEvents": events}
        (folder / f"rank{rank}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_what_a_person_reads(skyline: Run, job: Path) -> None:
    ran = skyline("ranks", str(job))
    assert ran.code == 0
    assert "3 of 4 ranks · 3 steps" in ran.out
    assert "rank 1 arrives last at 2 of 2 collectives" in ran.out
    assert "If it were as fast as rank 2" in ran.out or "If it were as fast as rank 0" in ran.out
    assert "No trace of rank 3 of 4" in ran.out
    said = " ".join(ran.out.split())
    assert (
        "A sub-model of 71 % of the width (50 % to 71 %) on this rank alone would equalise the ranks (6.00 ms per step)"
        in said
    )
    assert "it changes convergence (FLuID)" in said


def test_what_a_program_reads(skyline: Run, job: Path) -> None:
    ran = skyline("ranks", str(job), "--json", "-")
    assert ran.code == 0
    report = json.loads(ran.out)
    assert report["schema"] == "skyline.ranks/1"
    assert (report["world_size"], report["missing"]) == (4, [3])
    slow, fast = report["ranks"][1], report["ranks"][0]
    assert slow["compute_ms"] == pytest.approx(8.0)
    assert fast["waiting_ms"] == pytest.approx(4.0, abs=0.01)
    assert slow["waiting_ms"] == pytest.approx(0.0)
    for one in report["ranks"]:
        parts = [one[name] for name in ("compute_ms", "transfer_ms", "waiting_ms", "rest_ms")]
        assert sum(parts) == pytest.approx(one["step_ms"])
    assert report["straggler"]["rank"] == 1
    assert report["straggler"]["gain_ms"] == pytest.approx(4.0, abs=0.05)
    smaller = report["straggler"]["sub_model"]
    assert smaller["kept_width"]["value"] == pytest.approx(0.5**0.5, rel=0.01)
    assert smaller["kernels_ms"] == pytest.approx(8.0)
    assert smaller["step_ms"] == pytest.approx(report["straggler"]["step_ms"], rel=0.01)
    assert (smaller["evens"], smaller["semantics"]) == (True, "convergence")
    assert report["replay_error"] < 0.01
    assert report["whatif"] is None


def test_a_whatif_on_the_ranks(skyline: Run, job: Path) -> None:
    ran = skyline("ranks", str(job), "--scale", "sgemm=0.5", "--rank", "1", "--json", "-")
    answer = json.loads(ran.out)["whatif"]
    assert answer["change"] == "sgemm x0.5 on rank 1"
    assert answer["gain_ms"] == pytest.approx(4.0, abs=0.05)
    assert "What if" in skyline("ranks", str(job), "--scale", "nccl=2").out


def test_what_is_wrong_is_said(skyline: Run, job: Path, tmp_path: Path) -> None:
    assert skyline("ranks", str(tmp_path / "nothing")).code == 2
    assert skyline("ranks", str(job), "--processes", "0").code == 2
    assert skyline("ranks", str(job), "--scale", "gemm").code == 2
    assert skyline("ranks", str(job), "--rank", "1").code == 2
    other = tmp_path / "rank9.json"
    other.write_text((job / "rank0.json").read_text().replace('"world_size": 4', '"world_size": 16'))
    ran = skyline("ranks", str(job), str(other))
    assert ran.code == 2
    assert "different jobs: of 4 and 16 ranks" in ran.err


def test_ranks_have_a_page(skyline: Run, job: Path, tmp_path: Path) -> None:
    page = tmp_path / "ranks.html"
    ran = skyline("ranks", str(job), "--quiet", "--html", str(page))
    assert ran.code == 0, ran.err
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>Ranks of a job" in text
    assert "rank 1" in text
