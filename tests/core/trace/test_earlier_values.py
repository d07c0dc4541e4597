"""A profile in which nothing was computed takes the lookups that a saved run of the same code showed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyline.predict.gpu_profile import with_earlier_values
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.trace.tensor_values import HotRows, TableAccess, TensorValues

VALUES = TensorValues(8, (TableAccess("Net.table", 1000, 256, 64.0, 50.0),), (HotRows(256_000, 1.0, 0.0),))


@pytest.fixture
def traced(profile: Profile, tmp_path: Path) -> Profile:
    """A prediction of a script with a saved run that showed lookups."""
    script = str(tmp_path / "train.py")
    store.save(replace(profile, id="run", script=script, values=VALUES))
    return replace(profile, id="traced", script=script, mode="predicted")


def test_the_lookups_come_with_the_device_that_showed_them(traced: Profile) -> None:
    assert with_earlier_values(traced).values == replace(VALUES, seen_on="Test CPU")


def test_they_are_passed_on_by_a_saved_prediction(traced: Profile) -> None:
    store.save(with_earlier_values(traced))
    for path in store.saved(Path(traced.script)):
        if "run" in path.name:
            path.unlink()
    assert with_earlier_values(traced).values == replace(VALUES, seen_on="Test CPU")


def test_other_code_and_other_arguments_show_nothing(traced: Profile) -> None:
    other = replace(traced.sources[0], text=traced.sources[0].text.replace("print(loss.item())", "pass"))
    for changed in ({"sources": (other,)}, {"arguments": ("--large",)}, {"batch_size": 32}):
        assert with_earlier_values(replace(traced, **changed)).values is None


def test_values_of_its_own_stay(traced: Profile) -> None:
    own = replace(traced, values=TensorValues(1))
    assert with_earlier_values(own) is own


def test_without_a_run_nothing_is_known(profile: Profile, tmp_path: Path) -> None:
    alone = replace(profile, script=str(tmp_path / "alone.py"))
    assert with_earlier_values(alone) is alone
