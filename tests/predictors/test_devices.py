import csv
import json
from dataclasses import fields
from importlib.resources import files

import pytest

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline_predictors.devices import TABLE, gpus

WANTED = """P4 P40 P100 P100-SXM GP100 V100 V100-SXM V100-SXM-32GB V100S V100-DGXS Titan_V T4 RTX_2060 RTX_2070 RTX_2080
RTX_2080_Ti Titan_RTX A2 A10 A10G A30 A40 A100-40GB A100-40GB-PCIe A100-80GB A100-80GB-SXM RTX_A4000 RTX_A5000
RTX_A6000 RTX_3060 RTX_3060_Ti RTX_3070 RTX_3080 RTX_3090 L4 L40 L40S RTX_6000_Ada RTX_4060 RTX_4070 RTX_4080
RTX_4090 H100 H100-PCIe H100-NVL H200 H200-NVL GH200 B100 B200 GB200 RTX_5070 RTX_5080 RTX_5090 RTX_PRO_6000 MI100
MI210 MI250 MI250X MI300A MI300X MI325X"""


def test_the_usual_gpus_are_there():
    assert {name.replace("_", " ") for name in WANTED.split()} <= {spec.name for spec in gpus()}


def test_every_row_states_all_figures_and_no_others():
    (keys,) = {frozenset(row) for row in json.loads(files("skyline_predictors").joinpath(TABLE).read_bytes())}
    known = {field.name for field in fields(GpuSpec)}
    assert keys == known - {"memory_bytes", "l2_bytes", "own"} | {"memory_mib", "l2_mib"}


def test_every_name_and_alias_means_one_gpu_only():
    for spec in gpus():
        for name in (spec.name, spec.full_name, *spec.aliases):
            assert gpu_named(name) == spec, name


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("h100", "H100"),
        ("A100-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("nvidia geforce rtx 4090", "RTX 4090"),
        ("rtx3090", "RTX 3090"),
        ("AMD Instinct MI300X", "MI300X"),
        ("tesla t4", "T4"),
        # As NVML and PyTorch's traces have them.
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("NVIDIA A100-PG509-200", "A100-40GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM-32GB"),
        ("Tesla V100-PCIE-16GB", "V100-PCIe-16GB"),
        ("Tesla V100-DGXS-32GB", "V100-DGXS"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
    ],
)
def test_names_are_matched_as_people_write_them(asked, name):
    assert gpu_named(asked).name == name


@pytest.mark.parametrize(
    ("asked", "near"), [("h10", "H100"), ("a100-90gb", "A100-80GB"), ("rtx 4095", "RTX 4090")]
)
def test_an_unknown_name_is_answered_with_the_nearest(asked, near):
    with pytest.raises(UsageError) as raised:
        gpu_named(asked)
    assert near in raised.value.hint


@pytest.mark.parametrize("asked", ["", "nvidia", "zzz"])
def test_what_names_nothing_is_answered_with_a_hint(asked):
    with pytest.raises(UsageError, match="no GPU called") as raised:
        gpu_named(asked)
    assert "skyline gpus" in raised.value.hint


def test_narrower_formats_are_never_slower():
    for spec in gpus():
        peaks = [spec.tflops_fp32, spec.tflops_tf32, spec.tflops_fp16, spec.tflops_fp8]
        known = [peak for peak in peaks if peak is not None]
        assert known == sorted(known), spec.name


def test_the_peak_follows_from_clock_and_multiprocessors():
    """128 or 64 multiply-adds per clock and multiprocessor, on matrix units of AMD up to 256."""
    for spec in gpus():
        per_clock = spec.tflops_fp32 * 1e12 / (spec.multiprocessors * spec.clock_mhz * 1e6) / 2
        assert any(abs(per_clock / lanes - 1) < 0.12 for lanes in (64, 128, 256)), (spec.name, per_clock)


def test_every_row_names_its_source_and_links_that_can_be():
    for spec in gpus():
        assert any(maker in spec.source for maker in ("NVIDIA", "AMD", "AWS")), spec.name
        assert spec.pcie_gb_s in (32, 64, 128), spec.name
        assert spec.link_gb_s is None or 50 <= spec.link_gb_s <= 1800, spec.name
        assert spec.tflops_fp64 is not None, spec.name
        assert spec.tflops_fp64 <= spec.tflops_fp32 * 1.01, spec.name
        assert 50 <= spec.board_power_watts <= 1200, spec.name


def test_figures_agree_with_those_the_measurements_came_with(shared_data):
    path = shared_data / "gpu_latency" / "devices.csv"
    if not path.exists():
        pytest.skip(f"no table of measured GPUs at {path}")
    names = {"A100-40": "A100-40GB", "A100-SXM-40": "A100-40GB", "A100-80": "A100-80GB"}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            spec = gpu_named(names.get(row["gpu"], row["gpu"]))
            assert spec.bandwidth_gb_s == pytest.approx(float(row["mem_bw_gbs"]), rel=0.03), row["gpu"]
            assert spec.memory_bytes / 2**30 == pytest.approx(float(row["mem_gb"]), rel=0.09), row["gpu"]
            assert spec.l2_bytes / 2**20 == pytest.approx(float(row["l2_mb"]), rel=0.01), row["gpu"]
            assert spec.clock_mhz == pytest.approx(float(row["clock_mhz"]), rel=0.06), row["gpu"]
            peak = row["fp32_matrix_gflops"] or row["fp32_gflops"]
            assert spec.tflops_fp32 * 1e3 == pytest.approx(float(peak), rel=0.04), row["gpu"]
