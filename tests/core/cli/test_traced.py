from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from skyline.cli.subject import is_trace

DATA = Path(__file__).parents[2] / "data"
GPU, CPU = str(DATA / "tiny_gpu.trace.json"), str(DATA / "tiny_cpu.trace.json.gz")


@pytest.mark.parametrize("source", [GPU, CPU])
def test_the_whole_page(skyline, source) -> None:
    asked, shown = skyline("whatif", source), skyline("show", source)
    assert asked.code == shown.code == 0
    assert asked.err == ""
    assert asked.out == shown.out
    for words in ("simulation error", "Bound by", "Costliest operators", "What-ifs", "per step"):
        assert words in asked.out


def test_asked_by_name(skyline) -> None:
    ran = skyline("whatif", GPU, "amp=bf16", "remove_sync")
    assert ran.code == 0
    assert "assumes: softmax, norms and losses stay in float32" in ran.out
    assert "together" in ran.out
    assert "Costliest" not in ran.out


def test_json_of_whatifs_is_alone_on_stdout(skyline) -> None:
    found = json.loads(skyline("whatif", GPU, "--json", "-", "amp").out)
    assert found["schema"] == "skyline.whatif/2"
    assert [one["name"] for one in found["estimates"]] == ["amp"]
    assert found["baseline"]["iteration_ms"]["value"] == 1.0


def test_json_of_the_trace(skyline) -> None:
    by_option, by_format = skyline("show", GPU, "--json", "-"), skyline("show", GPU, "--format", "json")
    exported = skyline("export", GPU, "--format", "json", "-o", "-")
    assert json.loads(by_option.out)["schema"] == "skyline.trace/1"
    assert by_option.out == by_format.out == exported.out


def test_perfetto(skyline, tmp_path) -> None:
    ran = skyline("export", GPU, "--format", "perfetto", "-o", "both.json.gz")
    assert ran.code == 0, ran.err
    found = json.loads(gzip.decompress((tmp_path / "both.json.gz").read_bytes()))
    assert {one["pid"] for one in found["traceEvents"]} == {1, 2}
    # A simulated timeline is no recording, though it looks like one.
    assert skyline("whatif", "both.json.gz").code == 2


@pytest.mark.parametrize(
    "arguments", [("show", GPU, "--format", "html"), ("export", GPU, "--format", "html", "-o", "-")]
)
def test_a_trace_has_a_page(skyline, arguments) -> None:
    ran = skyline(*arguments)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("<!doctype html>")
    assert "The GPU works for 42 % of the step." in ran.out
    assert '"schema":"skyline.trace/1"' in ran.out
    assert "<script src" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("whatif", GPU, "ampp"), "no what-if 'ampp'"),
        (("whatif", GPU, "num_workers=few"), "num_workers=few is not possible"),
        (("show", GPU, "--line", "3"), "--line needs a profile"),
        (("export", GPU, "--format", "speedscope", "-o", "-"), "speedscope needs a profile"),
        (("whatif", GPU, "--", "--epochs", "1"), "takes no arguments"),
        (("whatif", "--gpu", "h1000", GPU), "no GPU called 'h1000'"),
        (("apply", GPU, "amp"), "names no script"),
        (("diff", GPU, GPU), "names no script"),
    ],
)
def test_what_traces_are_not_for(skyline, arguments, words) -> None:
    ran = skyline(*arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('{"schemaVersion": 1, "traceEvents": []}', True),
        ('  [{"ph": "X", "cat": "Operator"}]', True),
        ('{"deviceProperties": [], "cupti_version": 18}', True),
        ('{"hello": 1}', False),
        ("[1, 2]", False),
        ('{"schema":"skyline.capture/1","deviceProperties":[]}', False),
        ("print(1)", False),
    ],
)
def test_a_trace_is_known_by_how_it_begins(tmp_path, written, found) -> None:
    plain, packed = tmp_path / "one.json", tmp_path / "one.json.gz"
    plain.write_text(written, encoding="utf-8")
    packed.write_bytes(gzip.compress(written.encode()))
    assert is_trace(str(plain)) is is_trace(str(packed)) is found


def test_no_script_is_taken_for_a_trace(tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text('{"traceEvents": [], "ph": 1}', encoding="utf-8")
    assert not is_trace(str(script))
    assert not is_trace(str(tmp_path))
    assert not is_trace(str(tmp_path / "missing.json"))


def test_an_empty_trace_and_a_broken_one(skyline, tmp_path) -> None:
    (tmp_path / "empty.json").write_text('{"schemaVersion": 1, "traceEvents": []}', encoding="utf-8")
    ran = skyline("whatif", "empty.json")
    assert ran.code == 2
    assert "no event" in ran.err
    whole = Path(GPU).read_bytes()
    (tmp_path / "cut.json").write_bytes(whole[: len(whole) * 2 // 3])
    ran = skyline("whatif", "cut.json")
    assert ran.code == 0
    assert "nothing to repair" not in ran.out
