"""The batch size is rewritten at its literal, or refused with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import RewriteRefused, UsageError
from skyline.rewrite.catalogue import batch_size
from skyline.rewrite.context import RewriteContext
from skyline.source.knob import SettingPlace
from skyline.source.text import SourceText


def test_only_the_literal_changes(workshop) -> None:
    shop = workshop("B = 16  # é\r\nloader = DataLoader(d, batch_size=B)\r\n")
    assert shop.edited(batch_size=64) == "B = 64  # é\r\nloader = DataLoader(d, batch_size=B)\r\n"


def test_the_size_it_has_needs_no_edit(workshop) -> None:
    planned = workshop("B = 16\nloader = DataLoader(d, batch_size=B)\n").plan(batch_size=16)
    assert (planned.edits, planned.refused) == ((), ())


def test_a_literal_in_another_file(workshop) -> None:
    shop = workshop(
        "from config import B\nloader = DataLoader(d, batch_size=B)\n", others={"config.py": "B = 16\n"}
    )
    (edit,) = shop.plan(batch_size=64).edits
    assert (edit.span.file, edit.new_text) == ("/project/config.py", "64")


def test_the_command_line_is_named(workshop) -> None:
    source = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('-b', '--batch-size', type=int, default=8)\n"
        "a = p.parse_args()\nloader = DataLoader(d, batch_size=a.batch_size)\n"
    )
    reason = workshop(source, arguments=("--batch-size", "16")).reason(batch_size=64)
    assert "`--batch-size 16`" in reason
    assert "64" in reason
    assert "`-b16`" in workshop(source, arguments=("-b16",)).reason(batch_size=64)


def test_computed_and_shared_are_refused(workshop) -> None:
    shop = workshop("B = 4 * n\nloader = DataLoader(d, batch_size=B)\n")
    assert "4 * n" in shop.reason(batch_size=64)
    shop = workshop("N = 16\nloader = DataLoader(d, batch_size=N)\nm = torch.nn.Linear(N, 1)\n")
    assert "Linear" in shop.reason(batch_size=64)


def test_a_file_of_settings_is_written_and_the_default_is_left(workshop) -> None:
    source = "class Config:\n    batch_size: int = 8\nloader = DataLoader(d, batch_size=read(Config))\n"
    shop = workshop(source, others={"config.yaml": "train:\n  batch_size: 16  # each\n"})
    place = SettingPlace("/project/config.yaml", 2, "train.batch_size", "16")
    read = replace(shop, profile=replace(shop.profile, setting=place))
    (edit,) = read.plan(batch_size=64).edits
    assert (edit.span.file, edit.span.line, edit.old_text, edit.new_text) == (place.file, 2, "16", "64")


def test_a_literal_that_the_run_did_not_show_is_not_written(workshop) -> None:
    shop = workshop("B = 8\nloader = DataLoader(d, batch_size=B)\n", loader_line=2)
    assert shop.profile.batch_size == 16
    reason = shop.reason(batch_size=64)
    assert "The batch size 16 is set by the loader at train.py:2; no literal in the code holds it." in reason


def test_nothing_to_write_says_what_was_looked_for(workshop) -> None:
    assert "DataLoader" in workshop("x = 1\n").reason(batch_size=64)


def test_a_knob_that_moved_or_has_another_value_by_now_is_found_again(workshop) -> None:
    shop = workshop("B = 16\nloader = DataLoader(d, batch_size=B)\n")
    now = "W = 99\nB = 48\nloader = DataLoader(d, batch_size=B)\n"
    later = replace(shop, files={**shop.files, "/project/train.py": now})
    assert later.edited(batch_size=64) == now.replace("48", "64")
    assert later.plan(batch_size=48).edits == ()


@pytest.mark.parametrize(
    "now",
    [
        "loader = DataLoader(d, batch_size=48)\n",
        "loader = DataLoader(d, batch_size=0x30, num_workers=2, persistent_workers=True)\n",
        "train = DataLoader(d, batch_size=48, shuffle=True)\n",
    ],
)
def test_a_knob_in_a_call_that_was_rewritten_before_is_found_again(workshop, now: str) -> None:
    shop = workshop("loader = DataLoader(d, batch_size=16)\n")
    later = replace(shop, files={**shop.files, "/project/train.py": now})
    assert later.edited(batch_size=64) == now.replace("48", "64").replace("0x30", "0x40")


def test_of_two_calls_the_one_that_was_profiled_is_found_again(workshop) -> None:
    shop = workshop("a = DataLoader(train, batch_size=16)\nb = DataLoader(more, batch_size=8)\n")
    now = "a = DataLoader(train, batch_size=48)\nb = DataLoader(more, batch_size=8)\n"
    later = replace(shop, files={**shop.files, "/project/train.py": now})
    assert later.edited(batch_size=64) == now.replace("48", "64")
    # Neither is like it, so which of the two it was is unknown.
    other = "a = DataLoader(x, batch_size=48)\nb = DataLoader(y, batch_size=8)\n"
    later = replace(shop, files={**shop.files, "/project/train.py": other})
    assert "changed" in later.reason(batch_size=64)


def test_a_knob_that_is_gone_is_refused(workshop) -> None:
    shop = workshop("B = 16\nloader = DataLoader(d, batch_size=B)\n")
    # Another number stands where the knob was: it must not be taken for it.
    for now in ("W = 16\nloader = DataLoader(d, batch_size=n())\n", "B = 16\n"):
        later = replace(shop, files={**shop.files, "/project/train.py": now})
        assert "changed" in later.reason(batch_size=64)
    gone = replace(shop, files={})
    assert "does not exist" in gone.reason(batch_size=64)


def test_an_edit_is_for_the_text_at_hand(workshop) -> None:
    shop = workshop("B = 16\nloader = DataLoader(d, batch_size=B)\n")
    assert shop.profile.knobs.best is not None
    other = SourceText.of("/elsewhere/train.py", shop.files["/project/train.py"])

    class Elsewhere:
        profile = shop.profile
        baseline = None

    from skyline.rewrite.joint_edits import plan
    from skyline.whatif.question import Question

    (edit,) = plan(Elsewhere(), Question(32), lambda path: other).edits
    assert other.apply((edit,)).text == "B = 32\nloader = DataLoader(d, batch_size=B)\n"


def test_impossible_sizes_are_refused(workshop) -> None:
    with pytest.raises(UsageError, match="out of range"):
        workshop("B = 16\nloader = DataLoader(d, B)\n").plan(batch_size=0)


ONE_NAME = "B = 16\nloader = DataLoader(d, batch_size=B)\n"
ONE_CALL = "loader = DataLoader(d, batch_size=16)\n"


@pytest.mark.parametrize(
    ("profiled", "now"), [(ONE_NAME, ONE_NAME + "m = torch.nn.Linear(B, 1)\n"), (ONE_CALL, ONE_CALL * 2)]
)
def test_a_knob_that_has_a_second_use_by_now_is_refused(workshop, profiled: str, now: str) -> None:
    shop = workshop(profiled)
    planned = replace(shop, files={**shop.files, "/project/train.py": now}).plan(batch_size=64)
    (refused,) = planned.refused
    assert refused.reason.startswith("The file changed: ")
    assert "Profile it again." in refused.reason
    assert planned.edits == ()


@pytest.mark.parametrize("value", ["many", "0", ""])
def test_a_value_that_is_no_size_is_refused_before_anything_is_read(value: str) -> None:
    with pytest.raises(RewriteRefused, match=f"'{value}' is not a batch size") as refused:
        batch_size.rewrite(None, value)
    assert refused.value.hint == "Give a whole number from 1."


def test_the_refusal_of_a_changed_file_points_at_the_place_that_was_profiled(workshop) -> None:
    shop = workshop("\nB = 16\nloader = DataLoader(d, batch_size=B)\n")
    later = replace(
        shop, files={**shop.files, "/project/train.py": "loader = DataLoader(d, batch_size=n())\n"}
    )
    with pytest.raises(RewriteRefused, match="no longer set the way") as refused:
        batch_size.rewrite(RewriteContext(later.profile, later.read), "64")
    assert (refused.value.file, refused.value.line) == ("/project/train.py", 2)
