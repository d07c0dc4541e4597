import pytest

from skyline.calibrate.machine import CalibratedDevice, processor


@pytest.mark.parametrize(
    ("name", "device", "slug"),
    [
        ("AMD EPYC 9B14 96-Core Processor", "cpu", "amd-epyc-9b14-96-core-8t"),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "cpu", "intel-xeon-platinum-8375c-8t"),
        ("NVIDIA A100-SXM4-80GB", "cuda", "a100-sxm4-80gb"),
        ("???", "cuda", "unnamed"),
    ],
)
def test_what_a_person_types(name, device, slug):
    assert CalibratedDevice(name, device, 8, 2**30).slug == slug


def test_this_machine_has_figures():
    here = processor()
    assert here.threads >= 1
    assert here.gflops > 1
    assert here.memory_bytes > 2**28
    assert here.cache_bytes > 2**18
    assert processor(3).threads == 3
