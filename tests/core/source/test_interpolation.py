"""OmegaConf's interpolations lead to the value that they stand for."""

from __future__ import annotations

import pytest

from skyline.source.setting_names import Setting, rank
from skyline.source.settings_file import setting_places


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("size: 16\ntrain:\n  batch_size: ${size}\n", 1),
        ("train:\n  n: 16  # each\n  batch_size: ${.n}\n", 2),
        ("n: 16\ntrain:\n  batch_size: '${..n}'\n", 1),
        ("a: ${b.c}\nb: {c: 16}\nbatch_size: ${a}\n", 2),
        ("sizes:\n  small: 16\n  large: 32\nbatch_size: ${sizes[small]}\n", 2),
    ],
)
def test_a_reference_leads_to_its_number(text: str, line: int) -> None:
    (place,) = setting_places(Setting.BATCH_SIZE, [("config.yaml", text)], 16)
    assert (place.line, place.text) == (line, "16")


@pytest.mark.parametrize(
    "text",
    [
        "n: 16\nbatch_size: ${oc.env:SIZE,16}\n",
        "n: 16\nbatch_size: ${mul:${n},1}\n",
        "n: 16\nbatch_size: x${n}\n",
        "n: 16\nbatch_size: ${absent}\n",
        "n: 16\nbatch_size: ${....n}\n",
        "a: ${batch_size}\nbatch_size: ${a}\n",
    ],
)
def test_what_is_computed_or_leads_nowhere_is_no_place(text: str) -> None:
    assert setting_places(Setting.BATCH_SIZE, [("config.yaml", text)], 16) == []


def test_a_file_of_a_group_is_composed_under_its_folder() -> None:
    main, group = "train:\n  batch_size: ${data.size}\n", "size: 16\nnum_workers: 2\n"
    files = [("/p/conf/config.yaml", main), ("/p/conf/data/small.yaml", group)]
    (place,) = setting_places(Setting.BATCH_SIZE, files, 16)
    assert (place.file, place.line, place.key) == ("/p/conf/data/small.yaml", 1, "size")


@pytest.mark.parametrize(
    ("setting", "path", "expected"),
    [
        (Setting.NUM_WORKERS, ("data", "num_workers"), 0),
        (Setting.NUM_WORKERS, ("dataloader_num_workers",), 1),
        (Setting.NUM_WORKERS, ("workers",), 1),
        (Setting.NUM_WORKERS, ("worker_lr",), None),
        (Setting.NUM_WORKERS, ("val_workers",), None),
        (Setting.NUM_WORKERS, ("eval", "num_workers"), None),
        (Setting.GRAD_ACCUMULATION, ("gradient_accumulation_steps",), 0),
        (Setting.GRAD_ACCUMULATION, ("trainer", "accumulate_grad_batches"), 0),
        (Setting.GRAD_ACCUMULATION, ("eval_accumulation_steps",), None),
        (Setting.GRAD_ACCUMULATION, ("accuracy",), None),
        (Setting.BATCH_SIZE, ("batch", "size"), 0),
        (Setting.BATCH_SIZE, (), None),
    ],
)
def test_settings_are_known_by_the_names_of_their_keys(
    setting: Setting, path: tuple[str, ...], expected: int | None
) -> None:
    assert rank(setting, path) == expected
