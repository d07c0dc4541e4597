"""Settings that a run read from a file are rewritten there: one number, everything else as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.source.knob import ConfiguredSetting
from skyline.source.setting_names import Setting
from skyline.source.settings_file import setting_places

YAML = """\
# Settings.
train: {batch_size: 16, accumulate: 1}   # per device
data:
    num_workers:   2  # processes
"""
LOADER = (
    "from lightning import Trainer\nTrainer().fit(m)\n"
    "loader = DataLoader(d, batch_size=c.train.batch_size, num_workers=c.data.num_workers)\n"
)


@pytest.fixture
def configured(workshop):
    """A script that was profiled with two workers from ``config.yaml``."""

    def make(text: str = YAML, source: str = LOADER, name: str = "config.yaml", **given):
        shop = workshop(source, others={name: text}, loader_line=source.count("\n"), **given)
        files = ((f"/project/{name}", text),)
        profile = shop.profile
        found = [
            ConfiguredSetting(setting.value, value, tuple(setting_places(setting, files, value)))
            for setting, value in ((Setting.NUM_WORKERS, 2), (Setting.GRAD_ACCUMULATION, 1))
        ]
        made = replace(
            profile,
            loaders=tuple(replace(loader, num_workers=2) for loader in profile.loaders),
            setting=next(iter(setting_places(Setting.BATCH_SIZE, files, 16)), None),
            configured=tuple(each for each in found if each.places),
        )
        return replace(shop, profile=made)

    return make


def text_after(shop, *choices: str, batch_size: int | None = None, name: str = "config.yaml") -> str:
    planned = shop.plan(*choices, batch_size=batch_size)
    assert planned.refused == ()
    made = shop.after(planned)
    assert made.files["/project/train.py"] == shop.files["/project/train.py"]
    return made.files[f"/project/{name}"]


def test_only_the_number_changes(configured) -> None:
    shop = configured()
    assert text_after(shop, batch_size=64) == YAML.replace("16", "64")
    assert text_after(shop, "num_workers=8") == YAML.replace("  2 ", "  8 ")
    both = text_after(shop, "num_workers=8", batch_size=64)
    assert both == YAML.replace("16", "64").replace("  2 ", "  8 ")


def test_parts_of_a_batch_are_a_smaller_batch_and_more_of_them(configured) -> None:
    after = text_after(configured(), "grad_accumulation=4")
    assert after == YAML.replace("batch_size: 16", "batch_size: 4").replace("accumulate: 1", "accumulate: 4")
    assert "cannot be split into 3 equal parts" in configured().reason("grad_accumulation=3")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"train":\t{"batch_size" :16},\r\n "data": {"num_workers":2}}'),
        ("config.toml", "# é\n[train]\nbatch_size = 16 # each\n[data]\nnum_workers = 2\n"),
        ("config.ini", "[train]\nbatch_size: 16 ; each\n[data]\nnum_workers=2\n"),
    ],
)
def test_every_format_keeps_its_layout(configured, name: str, text: str) -> None:
    shop = configured(text, name=name)
    assert text_after(shop, batch_size=64, name=name) == text.replace("16", "64")
    assert text_after(shop, "num_workers=4", name=name) == text.replace("2", "4")


def test_the_value_that_is_there_needs_no_edit(configured) -> None:
    planned = configured().plan("num_workers=2", batch_size=16)
    assert (planned.edits, planned.refused) == ((), ())


def test_a_file_that_was_edited_since_is_read_anew(configured) -> None:
    shop = configured()
    moved = replace(shop, files={**shop.files, "/project/config.yaml": "# more\n" + YAML.replace("16", "32")})
    assert text_after(moved, batch_size=64) == "# more\n" + YAML.replace("16", "64")
    gone = replace(shop, files={**shop.files, "/project/config.yaml": "train: {}\n"})
    assert "config.yaml changed" in gone.reason(batch_size=64)


def test_an_argument_that_sets_it_is_named(configured) -> None:
    shop = configured(arguments=("train.batch_size=16", "data.num_workers=2"))
    assert "`train.batch_size=16`" in shop.reason(batch_size=64)
    assert "`data.num_workers=2`" in shop.reason("num_workers=4")


def test_two_places_with_the_number_are_not_told_apart(configured) -> None:
    shop = configured(YAML + "other:\n  num_workers: 2\n")
    reason = shop.reason("num_workers=4")
    assert "2 places" in reason
    assert "other.num_workers" in reason


def test_a_literal_in_the_code_goes_before_a_file_that_is_not_read_for_it(configured) -> None:
    source = "w = 2\nloader = DataLoader(d, batch_size=16, num_workers=w)\n"
    shop = configured(source=source)
    assert shop.after(shop.plan("num_workers=4")).files["/project/train.py"] == source.replace(
        "w = 2", "w = 4"
    )


def test_a_file_goes_over_a_default_of_the_same_number(configured) -> None:
    source = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--num-workers', type=int, default=2)\n"
        "p.add_argument('--batch-size', type=int, default=16)\na = merged(p.parse_args())\n"
        "loader = DataLoader(d, batch_size=a.batch_size, num_workers=a.num_workers)\n"
    )
    shop = configured(source=source)
    assert text_after(shop, "num_workers=4", batch_size=64) == YAML.replace("16", "64").replace(
        "  2 ", "  4 "
    )


def test_a_loss_that_is_not_divided_keeps_its_accumulation(configured) -> None:
    shop = configured(
        source=LOADER.replace("from lightning import Trainer\nTrainer().fit(m)", "import torch")
    )
    assert shop.plan("grad_accumulation=2").edits == ()


@pytest.mark.parametrize(
    "divided",
    ["loss = f(model(x), y) / c['train']['accumulate']", "loss = f(model(x), y)\nloss /= c.train.accumulate"],
)
def test_a_loss_that_is_divided_by_the_setting_is_a_mean(configured, divided: str) -> None:
    source = LOADER.replace("from lightning import Trainer\nTrainer().fit(m)", f"import torch\n{divided}")
    after = text_after(configured(source=source), "grad_accumulation=4")
    assert after == YAML.replace("batch_size: 16", "batch_size: 4").replace("accumulate: 1", "accumulate: 4")
