from collections import Counter
from itertools import islice
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from skyline.calibrate.case_order import ordered_cases
from skyline.calibrate.designs import DEVICE_CALLS, designs


def cases(count: int, device: str = "cpu"):
    return list(islice(ordered_cases(("fp32", "bf16"), (0, 1), designs(device)), count))


def test_every_operator_comes_once_before_one_comes_again():
    names = [design.op for design in designs("cpu")]
    first = [case.op for case in cases(sum(design.share for design in designs("cpu")))]
    assert set(first) == set(names)
    assert list(dict.fromkeys(first)) == names


def test_any_beginning_reaches_small_and_large_sizes():
    widths = [log2(dict(case.sizes)["n"]) for case in cases(1000) if case.op == "linear"][:20]
    assert min(widths) < 5
    assert max(widths) > 11
    gaps = [right - left for left, right in zip(sorted(widths), sorted(widths)[1:], strict=False)]
    assert max(gaps) < 3.0


@given(st.sampled_from(["cpu", "cuda"]), st.integers(50, 400))
def test_no_case_is_larger_than_it_may_be(device, count):
    most = {"cpu": 4e9, "cuda": 2e12}[device]
    for case in cases(count, device):
        s = dict(case.sizes)
        if case.op in ("linear", "mm", "mm_t", "bmm"):
            assert 2 * s.get("b", 1) * s["m"] * s["n"] * s["k"] <= most
        if case.op.startswith("conv"):
            assert s["isize"] + 2 * s["pad"] >= s["ksize"]
            assert s["cin"] % s["groups"] == 0


def test_most_are_of_the_first_format_and_thread_count():
    drawn = cases(600)
    assert Counter(case.dtype for case in drawn)["fp32"] > 350
    assert Counter(case.threads for case in drawn)[0] > 400
    assert {case.dtype for case in drawn} == {"fp32", "bf16"}
    assert {case.threads for case in drawn} == {0, 1}


def test_launching_and_waiting_are_measured_on_gpus_and_eight_bits_where_there_are():
    plain, eight = (
        list(islice(ordered_cases(("fp32", "bf16"), (0,), designs("cuda", eight_bits=bits)), 3000))
        for bits in (False, True)
    )
    assert set(DEVICE_CALLS) <= {case.op for case in plain}
    assert not set(DEVICE_CALLS) & {case.op for case in cases(3000)}
    assert {case.dtype for case in plain if case.op in DEVICE_CALLS} == {"fp32"}
    assert "fp8" not in {case.dtype for case in plain}
    products = [case for case in eight if case.dtype == "fp8"]
    assert {case.op for case in products} == {"scaled_mm"}
    # Kernels for eight bits take multiples of sixteen.
    assert all(size % 16 == 0 for case in products for _, size in case.sizes)
