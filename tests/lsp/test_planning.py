"""A script or a described model on a cluster, asked for by a client."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from skyline.report import protocol

TRAINING = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(4096, 512)), batch_size=64)
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MODEL = {"model": "gpt2", "cluster": "p4d.24xlarge", "gpus": "8", "globalBatch": 64}


async def test_a_described_model_needs_no_profile_and_its_rows_open_as_timelines(
    editor, project: Path
) -> None:
    train = editor.open(project / "train.py")
    choices = await editor.ask(protocol.PLAN_CHOICES, uri=train)
    assert "dgx-h100" in [one["name"] for one in choices["clusters"]]
    assert "gpt2" in choices["models"]

    asked = {**MODEL, "uri": train, "amount": "10B", "rows": 3}
    report = await editor.ask(protocol.PLAN, **asked)
    assert report["schema"] == "skyline.plan/1"
    assert [row["rank"] for row in report["rows"]] == [1, 2, 3]
    best = report["rows"][0]
    assert best["step_ms"]["low"] < best["step_ms"]["value"] < best["step_ms"]["high"]
    assert best["usd"]["value"] > 0
    # Code is written for scripts only.
    assert best["whatifs"] == []

    timeline = await editor.ask(protocol.PLAN_TIMELINE, plan=asked, row=1)
    assert timeline["measured"]["lanes"] == []
    assert "compute" in [lane["name"] for lane in timeline["simulated"]["lanes"]]
    assert timeline["simulated"]["title"] == best["label"]
    assert timeline["end_ms"] > 0
    middle = timeline["end_ms"] / 2
    window = await editor.ask(protocol.PLAN_TIMELINE, plan=asked, row=1, beginMs=middle, most=10)
    assert window["begin_ms"] == middle

    written = await editor.ask(protocol.PLAN_EXPORT, plan=asked, row=2, path="row.json.gz")
    assert written == {"status": "written", "path": str(project / "row.json.gz"), "script": None}
    events = json.loads(gzip.decompress((project / "row.json.gz").read_bytes()))
    assert events["otherData"]["strategy"] == report["rows"][1]["label"]
    with pytest.raises(JsonRpcException, match="the table has no row 4"):
        await editor.ask(protocol.PLAN_TIMELINE, plan=asked, row=4)
    # The plan was made once; its rows come from it.
    bars = [bar for bar in editor.progress() if bar[0].title == "Planning gpt2 on p4d.24xlarge"]
    assert len(bars) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": "dgx-z"}, r"no cluster dgx-z is known\. Available: .*dgx-h100.*or give a \.toml file"),
        ({"cluster": "lab.toml"}, r"lab\.toml cannot be read"),
        ({"model": "gpt9"}, r"no model gpt9 is known\. Available: "),
        ({"gpus": "8..4"}, r"'8\.\.4' is not a number of GPUs\. Example: 64 or 8\.\.512"),
        ({"gpus": "12"}, "12 GPUs are not a whole number of nodes"),
        ({"budget": "$5"}, "needs the amount of training"),
        ({"globalBatch": 100_003}, "no strategy has this global batch"),
    ],
)
async def test_a_question_that_cannot_be_answered_gets_the_cause_and_the_next_step(
    editor, project: Path, changes: dict[str, object], message: str
) -> None:
    train = editor.open(project / "train.py")
    with pytest.raises(JsonRpcException, match=message):
        await editor.ask(protocol.PLAN, **{**MODEL, "uri": train, **changes})


async def test_a_model_that_fits_nowhere_is_an_answer_with_the_next_step(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    report = await editor.ask(
        protocol.PLAN, uri=train, model="llama3-70b", cluster="two-desktops", globalBatch=2
    )
    assert report["rows"] == []
    assert "Take more GPUs" in report["advice"]
    assert report["too_large"][0]["memory_bytes"] > report["too_large"][0]["usable_bytes"]


async def test_a_cluster_beside_the_script_is_offered_and_used(editor, project: Path) -> None:
    (project / "lab.toml").write_text(
        'gpu = "A100"\nnodes = 1\ngpus_per_node = 2\n'
        "[inside]\ngb_s = 300\nlatency_us = 2\n[between]\ngb_s = 25\nlatency_us = 5\n"
    )
    train = editor.open(project / "train.py")
    choices = await editor.ask(protocol.PLAN_CHOICES, uri=train)
    assert choices["clusters"][0]["name"] == "lab.toml"
    report = await editor.ask(protocol.PLAN, uri=train, model="gpt2", cluster="lab.toml", globalBatch=8)
    assert {row["gpus"] for row in report["rows"]} == {2}


@pytest.mark.capture
async def test_a_script_is_traced_once_for_the_gpu_and_again_when_its_code_changes(
    editor, project: Path
) -> None:
    (project / "train.py").write_text(TRAINING)
    train = editor.open(project / "train.py")
    asked = {"uri": train, "cluster": "dgx-a100", "gpus": "8"}

    running = asyncio.ensure_future(editor.ask(protocol.PLAN, **asked))
    await editor.until(editor.runs)
    with pytest.raises(
        JsonRpcException, match=r"is being planned\. Wait until it has finished, or cancel it"
    ):
        await editor.ask(protocol.PLAN, **{**MODEL, "uri": train})
    assert (await editor.run(protocol.COMMAND_CANCEL, train))["status"] == "cancelled"
    with pytest.raises(JsonRpcException, match="cancelled"):
        await running
    await editor.until(lambda: not editor.runs())

    report = await editor.ask(protocol.PLAN, **asked)
    assert (report["model"], report["unit"], report["gpu"]) == ("train.py", "samples", "A100-80GB-SXM")
    written = [row for row in report["rows"] if row["whatifs"]]
    assert sorted(row["whatifs"] for row in written) == [["data_parallel=8"], ["fsdp=8"]]

    bars = len(editor.progress())
    again = await editor.ask(protocol.PLAN, **{**asked, "gpus": "4"})
    assert {row["gpus"] for row in again["rows"]} == {4}
    assert not any("trac" in (step.message or "") for bar in editor.progress()[bars:] for step in bar[1:-1])

    editor.change(train, TRAINING.replace("batch_size=64", "batch_size=32"))
    changed = await editor.ask(protocol.PLAN, **asked)
    assert "micro-batch 32 x" in changed["rows"][0]["label"]


@pytest.mark.capture
async def test_a_script_that_never_uses_a_gpu_says_what_to_do(editor, project: Path) -> None:
    train = editor.open(project / "train.py")
    with pytest.raises(JsonRpcException, match=r"never moves its model to a GPU.*Move model and batches"):
        await editor.ask(protocol.PLAN, uri=train, cluster="dgx-a100", gpus="8")
