"""GPUs, prices and electricity that a person adds in a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.predict.energy import own_grid_g_per_kwh
from skyline.predict.gpus import gpu_named, gpus
from skyline.predict.own_table import own_table_path
from skyline.predict.prices import check_provider, listed_prices, prices_of

Write = Callable[[str], Path]
WHOLE = """
[[gpu]]
name = "X1"
aliases = ["the new one"]
memory_gib = 24
bandwidth_gb_s = 800
multiprocessors = 60
clock_mhz = 1800
l2_mib = 5.5
compute_capability = "12.0"
power_watts = 150
tflops_fp32 = 30.5
tflops_bf16 = 120
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Makes a text the person's file."""

    def write(text: str) -> Path:
        path = tmp_path / "devices.toml"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("SKYLINE_DEVICES", str(path))
        return path

    return write


def test_a_gpu_of_ones_own_is_known_by_its_names(write: Write):
    path = write(WHOLE)
    spec = gpu_named("The New One")
    assert spec == gpu_named("x1")
    assert (spec.memory_bytes, spec.l2_bytes) == (24 * 2**30, 5_767_168)
    assert spec.compute_capability == (12, 0)
    assert (spec.tflops_fp32, spec.tflops_bf16, spec.tflops_tf32) == (30.5, 120, None)
    assert (spec.own, spec.source) == (True, str(path))
    assert gpus()[-1] == spec


def test_the_memory_has_its_unit(write: Write):
    write('[[gpu]]\nname = "Lab"\nlike = "h100"\nmemory = "24 GB"')
    assert gpu_named("lab").memory_bytes == 24_000_000_000


def test_a_gpu_like_another_differs_only_in_what_is_said(write: Write):
    write('[[gpu]]\nname = "Lab"\nlike = "h100"\nmemory_gib = 60\ntflops_fp8 = false')
    base, spec = gpu_named("H100"), gpu_named("lab")
    assert spec.memory_bytes == 60 * 2**30
    assert spec.tflops_fp8 is None
    assert (spec.bandwidth_gb_s, spec.l2_bytes, spec.tflops_bf16, spec.compute_capability) == (
        base.bandwidth_gb_s,
        base.l2_bytes,
        base.tflops_bf16,
        base.compute_capability,
    )
    assert spec.aliases == ()


def test_ones_own_figures_replace_those_of_the_table(write: Write):
    count = len(gpus())
    write('[[gpu]]\nname = "T4"\nlike = "T4"\npower_watts = 60')
    assert gpu_named("t4").board_power_watts == 60
    assert len(gpus()) == count


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("memoy_gib = 24", "memoy_gib is not known here", "Did you mean memory_gib?"),
        ('memory = "24"', "memory = '24': a number without a unit", "24GiB"),
        ("memory = 24", "memory does not fit: Expected str, got int", ""),
        ("memory_gib = 25769803776", "memory_gib does not fit: Expected float <= 4096", ""),
        ("clock_mhz = 1.8", "clock_mhz does not fit: Expected float >= 200", ""),
        ('multiprocessors = "60"', "multiprocessors does not fit: Expected int, got str", ""),
        ("multiprocessors = true", "multiprocessors does not fit: Expected int, got bool", ""),
        ("compute_capability = 8.9", "compute_capability does not fit: Expected str, got float", ""),
        ('compute_capability = "89"', "compute_capability does not fit: Expected str matching", ""),
        ('aliases = "a"', "aliases does not fit: Expected array, got str", ""),
        ('like = "h10"', "like: no GPU called 'h10' is known", "H100"),
        ('fp16_on_tensor_cores = "yes"', "fp16_on_tensor_cores does not fit: Expected bool, got str", ""),
        ("tflops_fp8 = -1", "tflops_fp8 does not fit: Expected float >= 0.01", "docs/devices.md"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_what_is_wrong(
    write: Write, line: str, said: str, hint: str
):
    kept = [other for other in WHOLE.splitlines() if not other.startswith(line.split(" ", maxsplit=1)[0])]
    path = write("\n".join([*kept, line]))
    with pytest.raises(UsageError, match=re.escape(said)) as raised:
        gpu_named("T4")
    assert str(path) in raised.value.message
    assert '"X1"' in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize("key", ["name", "memory_gib", "tflops_fp32", "compute_capability", "power_watts"])
def test_what_has_to_be_there_is_missed(write: Write, key: str):
    write("\n".join(line for line in WHOLE.splitlines() if not line.startswith(key)))
    with pytest.raises(UsageError, match=f"{key} is missing"):
        gpus()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gpu]\nname = 'X'", "write [[gpu]] above each gpu"),
        ("gpu = 3", "write [[gpu]]"),
        ("[[gpus]]\nname = 'X'", "gpus is not known"),
        ("[[gpu]\n", "is not TOML"),
        (WHOLE + WHOLE, "it is listed twice"),
    ],
)
def test_a_file_that_is_no_table_is_refused(write: Write, text: str, said: str):
    write(text)
    with pytest.raises(UsageError, match=re.escape(said)):
        gpus()


def test_the_file_lies_where_programs_are_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SKYLINE_DEVICES")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_table_path() == tmp_path / "skyline" / "devices.toml"
    assert gpu_named("T4").own is False
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert own_table_path() == Path.home() / ".config" / "skyline" / "devices.toml"
    monkeypatch.setenv("SKYLINE_DEVICES", str(tmp_path / "none.toml"))
    with pytest.raises(UsageError, match="does not exist"):
        gpus()


def test_prices_are_known_for_gpus_that_are_known_and_say_where_they_are_from():
    names = {spec.name for spec in gpus()}
    for price in listed_prices():
        assert price.gpu in names, price
        assert price.source, price
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", price.date), price
        assert 0.05 < price.usd_per_gpu_hour < 30, price


def test_the_cheapest_share_of_a_gpu_comes_first():
    found = prices_of(gpu_named("H100"))
    shares = [price.usd_per_gpu_hour for price in found]
    assert len(shares) > 3
    assert shares == sorted(shares)
    eight = next(price for price in found if price.gpus == 8)
    assert eight.usd_per_gpu_hour == pytest.approx(eight.usd_per_hour / 8)
    assert {price.provider for price in prices_of(gpu_named("H100"), "aws")} == {"AWS"}
    assert prices_of(gpu_named("MI100")) == ()
    with pytest.raises(UsageError, match="no price of Acme"):
        check_provider("Acme")


def test_a_price_of_ones_own_replaces_those_of_the_table(write: Write):
    write(
        '[[price]]\ngpu = "h100"\nusd_per_hour = 12\ngpus = 8\nprovider = "Cluster"\ndate = 2026-11-01\n'
        "[energy]\ngrid_g_per_kwh = 56"
    )
    (price,) = prices_of(gpu_named("H100"))
    assert (price.usd_per_gpu_hour, price.own, price.date) == (1.5, True, "2026-11-01")
    assert len(prices_of(gpu_named("T4"))) > 1
    check_provider("cluster")
    assert own_grid_g_per_kwh() == 56


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[price]]\ngpu = "h10"\nusd_per_hour = 1', "gpu: no GPU called 'h10' is known"),
        ('[[price]]\ngpu = "h100"', "usd_per_hour is missing"),
        ("[[price]]\nusd_per_hour = 1", "price 1: gpu is missing"),
        ('[[price]]\ngpu = "h100"\nusd_per_hour = 1\nusd = 2', "usd is not known here"),
    ],
)
def test_a_price_that_cannot_be_used_is_named(write: Write, text: str, said: str):
    write(text)
    with pytest.raises(UsageError, match=re.escape(said)):
        prices_of(gpu_named("T4"))


def test_electricity_is_checked_too(write: Write):
    write("[energy]\ngrid = 56")
    with pytest.raises(UsageError, match="grid is not known here"):
        own_grid_g_per_kwh()
