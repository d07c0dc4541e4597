from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.json import encode
from rich.console import Console

from skyline.report.answers import answers_report
from skyline.report.pages.traced import trace_answers_page, trace_page
from skyline.report.terminal import print_document
from skyline.report.traced import trace_report
from skyline.whatif.question import Choice

GOLDEN = Path(__file__).parent / "golden"
# Of one model by one maker, recorded five times, one.
VISIBLE = (
    "deepview_rtx3060ti_resnet50_run1",
    "hta_a100_inference_alexnet",
    "hta_a100_rank0of16_recsys",
    "hta_a100_rank3of8_recsys_control",
    "hta_gp100_mlp_train",
    "hta_v100_resnet50_ddp1",
    "kineto_2101_resnet50_workers0",
    "param_dlrm_rank0of8",
    "param_dlrm_rank1of8",
    "param_dlrm_rank2of8",
    "param_dlrm_rank3of8",
    "tracelens_h100_bert_small_fwd",
    "tracelens_h100_vit_nsfw_fwd",
)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


class Sheet(io.StringIO):
    encoding = "utf-8"


def printed(page, *what, width=80):
    sheet = Sheet()
    print_document(page(*what), Console(file=sheet, width=width, highlight=False))
    return sheet.getvalue()


def check(name, found):
    """Compare with the golden file; SKYLINE_UPDATE_GOLDEN=1 writes it again."""
    path = GOLDEN / name
    if os.environ.get("SKYLINE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gpu", "cpu"])
def test_the_page(name, request) -> None:
    one = request.getfixturevalue(name)
    report = trace_report(one, f"/home/ada/tiny_{name}.trace.json")
    found = printed(trace_page, report, answers_report(one))
    assert max(map(len, found.splitlines())) <= 80
    check(f"{name}-80.txt", found)


def test_asked_whatifs(gpu) -> None:
    answers = answers_report(gpu, (Choice("remove_sync"), Choice("amp", "bf16")))
    found = printed(trace_answers_page, trace_report(gpu, "tiny.json"), answers)
    assert max(map(len, found.splitlines())) <= 80
    check("asked-80.txt", found)


def test_plain_characters(gpu) -> None:
    sheet = Sheet()
    sheet.encoding = "ascii"  # type: ignore[misc]
    console = Console(file=sheet, width=80, highlight=False)
    print_document(trace_page(trace_report(gpu, "tiny.json"), answers_report(gpu)), console)
    assert sheet.getvalue().isascii()


def test_a_model_that_does_not_hold_says_so(gpu) -> None:
    for factor, words in ((1.07, "simulated figures are rough"), (1.3, "predicts nothing from it")):
        off = replace(gpu, replay_error=factor - 1)
        report = trace_report(off, "tiny.json")
        assert any(words in note for note in report.notes)
        assert (report.operators[0].saved_ms is None) == (factor > 1.1)
        assert words in " ".join(printed(trace_page, report, answers_report(off)).split())


def test_json_of_a_trace(gpu) -> None:
    found = msgspec.json.decode(encode(trace_report(gpu, "tiny.json")))
    assert found["schema"] == "skyline.trace/1"
    assert sum(found["phases"].values()) + found["idle_ms"] == pytest.approx(found["running_ms"]["value"])
    assert sum(found["critical_path"].values()) == pytest.approx(1)
    assert found["device"] == {"name": "Imaginary GPU", "kind": "gpu"}
    assert found["rank"] is found["world_size"] is None


def test_json_of_whatifs_is_that_of_profiles(gpu) -> None:
    from skyline.report.schema import BaselineReport, EstimateReport

    found = msgspec.json.decode(encode(answers_report(gpu, (Choice("amp"), Choice("remove_sync")))))
    assert found["schema"] == "skyline.whatif/2"
    assert set(found["baseline"]) == set(BaselineReport.__dataclass_fields__)
    for one in (*found["estimates"], found["combined"]):
        assert set(one) == set(EstimateReport.__dataclass_fields__)
    assert found["baseline"]["throughput"] is None
    assert found["baseline"]["peak_bytes"] is None


def test_a_trace_of_another_maker(changed) -> None:
    calls = {"cudaMemcpyAsync": "hipMemcpyAsync", "cudaLaunchKernel": "hipLaunchKernel",
             "cudaStreamSynchronize": "hipStreamSynchronize"}  # fmt: skip
    kernels = {"Memcpy HtoD (Pageable -> Device)": "CopyHostToDevice", "ampere_sgemm_nt": "Cijk_Ailk_Bljk_SB_MT64x64",
               "Memcpy DtoH (Device -> Pinned)": "CopyDeviceToHost"}  # fmt: skip
    one = changed(
        lambda event: {
            **event,
            "name": {**calls, **kernels}.get(event["name"], event["name"]),
            "cat": event["cat"].replace("cuda_runtime", "hip_runtime"),
        },
        deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4}],
    )
    report = trace_report(one, "tiny.json")
    assert report.device.name == "AMD Instinct MI300X"
    assert one.replay_error < 0.02
    answers = {found.name: found for found in answers_report(one).estimates}
    assert answers["amp"].applicable
    assert answers["amp"].change_ms.value < 0
    assert answers["remove_sync"].change_ms.value < -0.05


def test_the_peak_is_known_where_memory_was_recorded(cpu) -> None:
    report = answers_report(cpu, (Choice("num_workers", "2"),))
    assert report.baseline.peak_bytes is not None
    assert report.baseline.peak_bytes.value > 0
    assert report.baseline.peak_bytes == report.estimates[0].peak_bytes


@pytest.mark.parametrize("published", VISIBLE, indirect=True)
def test_every_visible_trace(published) -> None:
    one = published.subject
    report = trace_report(one, str(published.path))
    answers = answers_report(one)
    found = printed(trace_page, report, answers)
    assert max(map(len, found.splitlines())) <= 80
    assert encode(report)
    assert encode(answers)
    assert one.replay_error < 0.01
    total = report.phases.total + report.idle_ms
    assert total == pytest.approx(report.running_ms.value, rel=1e-6)
