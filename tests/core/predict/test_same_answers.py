"""Which GPUs a script cannot tell apart."""

from __future__ import annotations

import pytest

from skyline.predict.gpus import gpu_named
from skyline.predict.outlook import same_answers


@pytest.mark.parametrize(
    ("asked", "one", "other", "same"),
    [
        ((), "t4", "h100", True),
        (("is_bf16_supported",), "l4", "h200", True),
        (("is_bf16_supported",), "t4", "l4", False),
        (("get_device_capability",), "l4", "l40s", True),
        (("get_device_capability",), "a100", "h100", False),
        (("is_bf16_supported", "get_device_capability"), "l4", "h100", False),
        (("get_device_name",), "l4", "l40s", False),
        (("mem_get_info",), "l4", "l4", True),
    ],
)
def test_gpus_are_alike_where_all_their_answers_are(
    asked: tuple[str, ...], one: str, other: str, same: bool
) -> None:
    assert same_answers(asked, gpu_named(one), gpu_named(other)) is same
